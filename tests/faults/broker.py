"""Kafka's only broker killed, or frozen, under running consumers: they keep what they have and go on when it is back.

In half of the cases a hand-off is under way: its giver stands still from before the join until the broker has gone, so that
the hand-off cannot be over before that.
"""

import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import ClassVar

from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import history
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.checker import check
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.outage import needless
from tests.faults.roles import COORDINATOR
from tests.faults.servers import Servers

BROKER = "broker"
KILLED, FROZEN = "killed and started on its data", "frozen"
AWAY_S = {KILLED: 10.0, FROZEN: 30.0}
"""Below the two minutes of failing commits after which a partition is given up."""
STABLE, MOVING = "stable", "in the middle of a hand-off"
FLOW_LIMIT_S = 30.0
"""Until every partition flows again: librdkafka tries to connect every 10 s at least, and the machine may be busy."""
AFTER_S = 10.0
"""What the broker's return brings about comes within that time."""
SESSION_S = 20.0
"""The giver that stands still keeps its session meanwhile."""
MEETING_S = 180.0


@dataclass(frozen=True, slots=True)
class Sat:
    """What became of a case. Seconds count from the broker's return; `flow_s`: until the last partition flowed again.

    `away` and `since`: records processed while the broker was away (what had been fetched), and then until the end.
    """

    problems: tuple[str, ...]
    away: int = 0
    since: int = 0
    flow_s: float = 0.0
    stable_s: float = 0.0


@dataclass
class Absence:
    """All cases and whoever takes the broker away meet around each of its steps. Times are seconds since 1970."""

    meeting: threading.Barrier
    gone_at: float = 0.0
    back_at: float = 0.0

    def meet(self) -> None:
        self.meeting.wait(MEETING_S)


@dataclass
class Without(Case):
    """Two consumers and a coordinator while the broker is away; `moving` = a hand-off is under way."""

    bound_s: ClassVar[float] = 90.0
    moving: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, session_timeout_s=SESSION_S)

    def sit_out(self, absence: Absence) -> Sat:
        """The case, and its verdict."""
        self.base = self.servers.ends()
        try:
            return self._run(absence)
        except (Failed, threading.BrokenBarrierError) as error:
            absence.meeting.abort()
            return Sat((str(error) or "another case has failed",))
        finally:
            self.close()

    def _run(self, absence: Absence) -> Sat:
        self._begin()
        absence.meet()  # everybody is Stable
        if self.moving:
            self._begin_to_move()
        before, known = self.node(), len(history.records(self.coordinator, self.topic, 500))
        absence.meet()  # the broker goes
        absence.meet()  # it has gone
        if self.moving:
            self._signal(FIRST, signal.SIGCONT)
        absence.meet()  # it comes
        over = self.moving and '"Stable"' in self._standing()
        absence.meet()  # it is there
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable afterwards")
        stable_s = time.time() - absence.back_at
        self._await(
            lambda: time.time() > absence.back_at + AFTER_S and self._answers(), "the broker answers for everything"
        )
        self._await(self._consumed, "everything is processed")
        found = self._judged(absence, before, known)
        shown = ("the hand-off ended without a broker: nothing was shown",) if over else ()
        return replace(found, problems=found.problems + shown, stable_s=round(stable_s, 2))

    def _begin(self) -> None:
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        self._start(COORDINATOR)
        self._start(FIRST)
        owners = {FIRST}
        if not self.moving:
            self._start(SECOND)
            owners.add(SECOND)
        self._await(lambda: self._settled(owners), f"Stable with {sorted(owners)}")

    def _begin_to_move(self) -> None:
        self._signal(FIRST, signal.SIGSTOP)
        self._start(SECOND)
        self._await(lambda: '"Closing"' in self._standing(), "the join is planned")

    def _answers(self) -> bool:
        """Every partition has a leader, and so has the log of the commits."""
        with suppress(KafkaUnavailable, KeyError):
            self.target = self.servers.ends()
            self.servers.commits.of(self.group, self.topic)
            return len(self.target) == self.servers.partitions
        return False

    def _signal(self, role: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended: whoever waits for it says so
            os.kill(self.actors[role].process.pid, number)  # type: ignore[union-attr, arg-type]

    def _judged(self, absence: Absence, before: TopicNode, known: int) -> Sat:
        evidence = self._evidence()
        problems, after = check(evidence).problems(), self.node()
        if (after.generation, after.incarnations) != (before.generation, before.incarnations):
            problems.append(f"another generation or other lives: {before} became {after}")
        if not self.moving:
            problems += needless(before, after, evidence.records[known:])
        elif sum(len(one.moves) for one in evidence.records) != self.servers.partitions + 1:
            problems.append(f"more than one move for a join: {[one.moves for one in evidence.records]}")
        flow_s = flows_s(evidence.rows, self.base, absence.back_at)
        if flow_s > FLOW_LIMIT_S:
            problems.append(f"a partition did not flow for {flow_s:.1f} s after the broker's return")
        away = sum(absence.gone_at <= row.processed_at < absence.back_at for row in evidence.rows)
        since = sum(row.processed_at >= absence.back_at for row in evidence.rows)
        return Sat(tuple(problems), away, since, round(flow_s, 2))


def flows_s(rows: Sequence[Row], partitions: Collection[int], since: float) -> float:
    """How long it took until each partition had a record processed."""
    first = dict.fromkeys(partitions, inf)
    for row in rows:
        if row.processed_at >= since:
            first[row.partition] = min(first[row.partition], row.processed_at)
    return max(first.values()) - since


def _run(turn: Turn) -> None:
    for way in AWAY_S:
        keys = {f"broker {way}, {kind}": kind for kind in (STABLE, MOVING)}
        due = turn.notes.due(keys)
        if not due or turn.over():
            continue
        folder = turn.folder / way.split()[0]
        with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper, EmbeddedKafka(folder / "kafka") as kafka:
            servers = Servers(zookeeper.connect_string, kafka.bootstrap_servers, f"{turn.folder.name}-{folder.name}")
            absence = Absence(threading.Barrier(len(due) + 1))
            try:
                with ThreadPoolExecutor(len(due)) as pool:
                    cases = [
                        Without(servers, f"{folder.name}{n}", folder / f"case{n}", moving=keys[key] == MOVING)
                        for n, key in enumerate(due)
                    ]
                    sitting = [pool.submit(case.sit_out, absence) for case in cases]
                    _away(kafka, absence, way)
                    for key, one in zip(due, sitting, strict=True):
                        turn.notes.add(BROKER, key, **asdict(one.result()))
            finally:
                servers.close()


def _away(kafka: EmbeddedKafka, absence: Absence, way: str) -> None:
    go, come = (kafka.kill, kafka.start) if way == KILLED else (kafka.pause, kafka.resume)
    with suppress(threading.BrokenBarrierError):  # a case that has failed says why
        absence.meet()
        absence.meet()
        absence.gone_at = time.time()
        go()
        try:
            absence.meet()
            time.sleep(AWAY_S[way])
            absence.meet()
        finally:
            come()
            absence.back_at = time.time()
        absence.meet()


def _summary(notes: Notes, _: Wanted) -> str:
    lines = notes.of(BROKER)
    return (
        f"{len(lines)} of {2 * len(AWAY_S)} cases; {sum(one['away'] for one in lines)} records processed without a broker, "
        f"{sum(one['since'] for one in lines)} afterwards; every partition flowed again after at most "
        f"{figure(lines, 'flow_s'):.1f} s, Stable after at most {figure(lines, 'stable_s'):.1f} s"
    )


PART = Part(BROKER, _run, _summary)
