"""The unregistered consumers of fleets that are to be launched or are starting."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine import crashes, fleet_topics
from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.text.partition_text import agreed, joined, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.fleet import fleets, may_start
from coordinator_tasks.service.nodes.observe import load_claims, load_directives


@dataclass(frozen=True, slots=True)
class FleetStart:
    """The unregistered consumers of a fleet. `topics`: names and patterns of the fleet; empty means any topic."""

    app: str
    consumers: tuple[str, ...]
    topics: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Return a sentence that says where to look."""
        return (
            f"{shown(self.consumers)} of fleet {self.app} {agreed(len(self.consumers), 'is', 'are')} being started: "
            "see the runs of the DAG `consumers`, or the log of the launcher"
        )


def fleet_starts(c: Coordinator) -> tuple[FleetStart, ...]:
    """Return the fleets with consumers that are due for a launch or starting; empty if a node is unreadable.

    Consumers are left out if their last process ended with an error, or if they are isolated or drained. Fleets that
    this host may not launch are left out too.
    """
    with suppress(CoordinatorError):
        members = c.discovery.members()
        missing = [
            (fleet, [one for one in fleet.consumers if one not in members]) for fleet in fleets(c) if not fleet.problem
        ]
        names = sorted({consumer for _, consumers in missing for consumer in consumers})
        world = World(c.clock.now(), members, load_claims(c, names, {}), load_directives(c, {}))
        due = {
            one
            for one in names
            if may_start(one, world.directives.get(one), world.now) and crashes.exits(one, world, c.policy) is None
        }
        return tuple(
            FleetStart(fleet.app, starts, fleet_topics.named(fleet.arguments))
            for fleet, consumers in missing
            if (starts := tuple(one for one in consumers if one in due))
        )
    return ()


def starts_of(topic: str, starts: Collection[FleetStart]) -> str:
    """Return sentences about the fleets of this topic that are starting."""
    return joined(one.told for one in starts if wants(one.topics, topic))
