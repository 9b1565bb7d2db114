"""Progress and cost of an upgrade: the pauses of moved partitions, and of the other partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, islice
from math import inf

from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.fleet.upgrade import Upgrade, UpgradePhase
from coordinator_tasks.core.measure.pauses import milliseconds, of_one
from coordinator_tasks.core.model import Pause, Unmoved
from coordinator_tasks.core.text.partition_text import because, counted, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrades
from coordinator_tasks.service.nodes import history, upgrade_store

MAX_REBALANCES = 200
"""Maximum rebalances read of each topic, the newest first."""
SHOWN_STALLS = 50


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """A move of a partition. `pause`: its measurement; `None` without a measurement.

    `cause`: why the partition moved, if not by a step of the upgrade but for instance by the end of a consumer; empty
    for a step.
    """

    topic: str
    partition: int
    giver: str
    taker: str
    pause: Pause | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """The report. `moved`: the moves during the upgrade. `control`: topic → longest stall of an unmoved partition.

    `stayed`: topics and partitions of the fleet that have not moved, sorted. `waits`: what the upgrade waits for, and
    the remedy; empty if it does not wait.
    """

    upgrade: Upgrade
    moved: tuple[MovedPartition, ...]
    control: dict[str, Unmoved]
    stayed: tuple[tuple[str, int], ...] = ()
    waits: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self._state(), *self._cost())

    def _state(self) -> list[str]:
        one = self.upgrade
        held = one.phase in (UpgradePhase.MOVING, UpgradePhase.HOLDING)
        said = [f"{one.said}, asked by {one.by or 'nobody'}{because(one.why)}"]
        step, paused = f", {one.step_said}" if held else "", f"; paused: {one.paused}" if one.paused else ""
        said += [f"{one.phase.value}{step}{paused}"]
        said += [f"it waits: {self.waits}"] if self.waits else []
        said += [f"it goes back: {one.reason}"] if one.reason else []
        return said + [f"after {event.at - one.began_at:.0f} s: {event.text}" for event in one.events]

    def _cost(self) -> list[str]:
        if not self.moved:
            return ["no partition has moved"]
        known = [one.pause for one in self.moved if one.pause is not None]
        waited = [(one.pause.wait_s, one) for one in self.moved if one.pause and one.pause.wait_s is not None]
        waited.sort(key=lambda found: -found[0])
        said = [f"{counted(len(self.moved), 'move')}, {len(known)} measured, in {len(waited)} of them a record waited"]
        others = [one for one in self.moved if one.cause]
        said += [f"{len(others)} of them are no steps of the upgrade, and have other causes"] if others else []
        said += [_stalled(one) for _, one in waited[:SHOWN_STALLS]]
        said += [f"and {len(waited) - SHOWN_STALLS} more with shorter stalls"] if len(waited) > SHOWN_STALLS else []
        still = [(one.topic, one.partition) for one in self.moved if one.pause is not None and one.pause.wait_s is None]
        said += _counted("nothing waited", still)
        said += _counted("not measured", [(one.topic, one.partition) for one in self.moved if one.pause is None])
        said += _counted("did not move", self.stayed)
        for topic, one in self.control.items():
            said.append(
                f"control: of {counted(one.partitions, 'partition')} of {topic} that did not move, {one.partition} of "
                f"{one.consumer} stood still longest: {milliseconds(one.longest_s)}, usual {milliseconds(one.before_s)}"
            )
        return said


def report(c: Coordinator, app: str) -> UpgradeReport:
    """Return the report on the fleet's last upgrade. Raises `NotManaged` if there is none, and `Malformed`."""
    upgrade = upgrade_store.read(c, app)
    moved: list[MovedPartition] = []
    control: dict[str, Unmoved] = {}
    for one in _rebalances(c, upgrade):
        pauses = {pause.partition: pause for pause in one.pauses.measured} if one.pauses is not None else {}
        mine = [m for m in one.moves if {m.giver, m.taker} & {*upgrade.old_consumers, *upgrade.new_consumers}]
        # If a partition was planned again meanwhile, the pause belongs to its last move.
        for move in {m.partition: m for m in mine}.values():
            is_step = (move.giver in upgrade.new_consumers) != (move.taker in upgrade.new_consumers)
            cause = "" if is_step else one.cause
            pause = pauses.get(move.partition)
            moved.append(MovedPartition(one.topic, move.partition, move.giver, move.taker, pause, cause))
        unmoved = one.pauses.unmoved if one.pauses is not None else None
        if unmoved is not None and unmoved.longest_s > control.get(one.topic, unmoved).longest_s - 1e-9:
            control[one.topic] = unmoved
    try:
        waits = upgrades.why_waits(c, upgrade)
    except (Malformed, Refused) as error:
        waits = error.told
    stayed = {(topic, p) for topic, rates in upgrade.baseline.items() for p in rates}
    stayed -= {(one.topic, one.partition) for one in moved}
    return UpgradeReport(upgrade, tuple(moved), control, tuple(sorted(stayed)), waits)


def _rebalances(c: Coordinator, upgrade: Upgrade) -> list[history.Rebalance]:
    """Return the rebalances that began during the upgrade, oldest first."""
    ended_at = upgrade.since_at if upgrade.over else inf
    found: list[history.Rebalance] = []
    for topic in upgrade.topics:
        newest = dropwhile(lambda one: one.began_at > ended_at, history.newest(c, topic))
        found += islice(newest, MAX_REBALANCES)
    return sorted((one for one in found if upgrade.began_at <= one.began_at <= ended_at), key=lambda one: one.began_at)


def _counted(what: str, found: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield a line for each topic in `found`."""
    for topic in dict.fromkeys(topic for topic, _ in found):
        yield f"{what}: {named({partition for one, partition in found if one == topic})} of {topic}"


def _stalled(one: MovedPartition) -> str:
    who = f"{one.giver or 'nobody'} to {one.taker or 'nobody'}"
    cause = f"; {one.cause}" if one.cause else ""
    return f"{one.topic}/{one.partition} from {who}: {of_one(one.pause)}{cause}" if one.pause is not None else ""


def told(upgrade: Upgrade) -> str:
    """Return the upgrade's state as a sentence."""
    if upgrade.paused:
        return f"the {upgrade.said} is paused: {upgrade.paused}"
    back = f", and goes back: {upgrade.reason}" if upgrade.reason else ""
    return f"the {upgrade.said} is {upgrade.phase.value}{back}; {shown(upgrade.topics)}"
