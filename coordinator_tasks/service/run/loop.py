"""The plain loop: the same transitions without Airflow, for tests, benchmarks and small sites.

The loop keeps no state of its own that matters. While ZooKeeper or the registry does not answer, or the right on a
needed folder is missing, the loop changes nothing, logs the problem once, and continues afterwards. While Kafka does
not answer, the loop does all work that needs no Kafka.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.errors import NoAccess, Unavailable
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, MoveKind, State
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import idle_consumers
from coordinator_tasks.service.plan import pauses, transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import upkeep
from coordinator_tasks.service.watch import lag_moments

BUSY_S = 0.05  # pause while an event is awaited
HANDOFF_S = 0.2  # pause after a plan whose hand-offs the consumers perform among themselves; they answer later
QUIET_S = 1.0  # pause while nothing is due; finds changes that no watch reports
AMONG_THEM = (MoveKind.HANDOFF, MoveKind.START)  # a barrier needs the coordinator's write
ALL_SHARE = 5  # while topics wait, observations of the whole cluster take at most a fifth of the time
BUSY = (TopicOutcome.WRITTEN, TopicOutcome.WAITING, TopicOutcome.OVERTAKEN)
CHORES_S = 10.0  # new partitions and readmissions
PRUNE_S = 60.0  # old records
MEASURE_S = 30.0  # measured so long after Stable; later the upkeep measures
log = logging.getLogger(__name__)


def run(c: Coordinator, stop: threading.Event, who: str, show: Callable[[TopicReport], None] | None = None) -> None:
    """Run until `stop` is set. `who`: the author in the history. `show` gets the report of every write."""
    wake = threading.Event()
    actor = Actor("loop", who)
    held = ""
    said: set[str] = set()
    chores, measures = _Chores(), _Measures()
    busy: list[str] = []
    all_at = 0.0
    while not stop.is_set():
        woken = wake.is_set()
        wake.clear()
        try:
            c.discovery.watch(wake.set)
            chores.do(c)
            # Between two observations of the whole cluster, ask only the consumers of the waiting topics.
            began = c.clock.monotonic()
            everything = woken or not busy or began >= all_at
            reports = transitions.step(c, transitions.topics(c) if everything else busy, actor)
            if everything:
                all_at = began + max(QUIET_S, (c.clock.monotonic() - began) * ALL_SHARE)
            busy = [one.topic for one in reports if one.outcome in BUSY]
            measures.do(c, reports)
        except (Unavailable, NoAccess) as error:
            if str(error) != held:
                held = str(error)
                log.warning("holding everything as it is: %s", held)
            stop.wait(QUIET_S)
            continue
        if held:
            log.warning("everything answers again; continuing")
            held = ""
        said = _say(reports, said) | (set() if everything else said)
        for report in reports:
            if report.outcome is TopicOutcome.WRITTEN and show is not None:
                show(report)
        _pause(stop, wake, min(_pause_s(reports), measures.pause_s if measures.until else QUIET_S))


@dataclass(slots=True)
class _Chores:
    """The time of the next upkeep, and the lines of the last. A repeated line is logged only once."""

    at: float = 0.0
    prune_at: float = 0.0
    said: frozenset[str] = frozenset()

    def do(self, c: Coordinator) -> None:
        now = c.clock.monotonic()
        if now < self.at:
            return
        prune = now >= self.prune_at
        managed = transitions.topics(c)
        lines = [
            *upkeep.upkeep(c, managed, prune=prune).lines,
            *idle_consumers.give_up(c, managed),
            *lag_moments.keep(c, managed),
        ]
        for line in lines:
            if line not in self.said:
                log.warning("%s", line)
        self.said = frozenset(lines)
        self.at = now + CHORES_S
        self.prune_at = now + PRUNE_S if prune else self.prune_at


@dataclass(slots=True)
class _Measures:
    """Topics that have just become Stable, each with the time at which measuring its pauses ends.

    The pause between two measurements doubles, because each measurement lists all records.
    """

    until: dict[str, float] = field(default_factory=dict)
    at: float = 0.0
    pause_s: float = 0.0

    def do(self, c: Coordinator, reports: Collection[TopicReport]) -> None:
        now = c.clock.monotonic()
        ended = [one.topic for one in reports if one.outcome is TopicOutcome.WRITTEN and one.after is State.STABLE]
        if ended:
            self.until.update(dict.fromkeys(ended, now + MEASURE_S))
            self.at, self.pause_s = now, pauses.AGAIN_S
        if self.until and now >= self.at:
            left = pauses.complete(c, self.until)
            self.until = {topic: until for topic, until in self.until.items() if topic in left and now < until}
            self.at, self.pause_s = now + self.pause_s, 2 * self.pause_s


def _say(reports: Collection[TopicReport], said: Collection[str]) -> set[str]:
    """Log ignored consumers and offsets, and why topics are held, unless already `said`. Return all present lines."""
    held: dict[str, list[TopicReport]] = {}
    left_out: dict[str, list[TopicReport]] = {}
    for report in reports:
        if report.outcome is TopicOutcome.HELD:
            held.setdefault(report.reason, []).append(report)
        for one in report.left_out:
            left_out.setdefault(f"left out: {one}", []).append(report)
    for reason in sorted(held.keys() - set(said)):
        names = shown(report.topic for report in held[reason])
        log.warning("holding %s: %s", names, reason, extra=_fields(held[reason]))
    for line in sorted(left_out.keys() - set(said)):
        log.warning("%s", line, extra=_fields(left_out[line]))
    return held.keys() | left_out.keys()


def _fields(reports: Sequence[TopicReport]) -> dict[str, object]:
    """Return the log fields of a line about these topics; empty for several topics."""
    return reports[0].fields if len(reports) == 1 else {}


def _pause_s(reports: Collection[TopicReport]) -> float:
    """Return seconds until the next observation, if no watch fires."""
    busy = [r for r in reports if r.outcome in BUSY]
    if not busy:
        return QUIET_S
    planned = all(r.moves and r.outcome is TopicOutcome.WRITTEN for r in busy)
    return HANDOFF_S if planned and all(move.kind in AMONG_THEM for r in busy for move in r.moves) else BUSY_S


def _pause(stop: threading.Event, wake: threading.Event, limit_s: float) -> None:
    """Wait for a watch, at most `limit_s`. Notice a stop within a tenth of a second."""
    waited = 0.0
    while waited < limit_s and not stop.is_set() and not wake.wait(min(0.1, limit_s)):
        waited += 0.1
