"""The steps of operators and triggers, without Airflow. Each step calls the services once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Member, State
from coordinator_tasks.core.ports import Watcher
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import transitions

IDLE_PAUSE_S = 5.0  # used if the time of the next step is unknown


def held_up(c: Coordinator, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return topic → consumer → missing confirmation, for topics that wait."""
    found: dict[str, dict[str, str]] = {}
    for report in (transitions.await_closed(c, topics), transitions.await_started(c, topics)):
        for topic, consumers in report.blockers.items():
            found.setdefault(topic, {}).update(dict.fromkeys(consumers, report.topics.get(topic, "")))
    return found


def registered(c: Coordinator, consumer: str, watcher: Watcher | None = None) -> Member | None:
    """Return the consumer's registration; `None` if there is none. `watcher` is called once when membership changes."""
    if watcher is not None:
        c.discovery.watch(watcher)
    return c.discovery.members().get(consumer)


@dataclass(frozen=True, slots=True)
class LeftOver:
    """The topics that are still due, with a digest of their states and next steps.

    `writable`: some topic has a step that can be written. `now`: a step can be written, or a topic is moving. If not,
    `pause_s` is the time until the next step.
    """

    topics: tuple[str, ...]
    digest: str
    now: bool = False
    writable: bool = False
    pause_s: float = IDLE_PAUSE_S


def continuation(c: Coordinator, topics: Sequence[str]) -> LeftOver:
    """Return the work that a run leaves over. The digest changes with every transition of these topics."""
    due = transitions.due(c, tuple(topics))
    paths = [c.paths.state(topic) for topic in due]
    writable = any(need.outcome is TopicOutcome.WRITTEN for need in due.values())
    moving, stands = False, []
    for (topic, need), path, node in zip(due.items(), paths, c.zk.get_many(paths), strict=True):
        stands.append((topic, node.stat.version if node is not None else -1, str(need.outcome)))
        moving |= node is not None and codec.decode_state(path, node.data).state in (State.CLOSING, State.STARTING)
    digest = hashlib.sha256(repr(stands).encode()).hexdigest()[:12]
    pause_s = min((need.in_s for need in due.values() if need.in_s > 0), default=IDLE_PAUSE_S)
    return LeftOver(tuple(due), digest, writable or moving, writable, pause_s)
