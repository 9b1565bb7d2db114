"""ZooKeeper killed for minutes while consumers process: they go on, nothing is decided, and afterwards nothing moves needlessly."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise

from coordinator_tasks.core.model import Record, State, TopicNode
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import history
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.checker import check
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.roles import COORDINATOR
from tests.faults.servers import Servers

OUTAGE = "outage"
STABLE, JOINING = "stable", "in the middle of a join"
KINDS = (STABLE, STABLE, JOINING, JOINING)
LIMIT_S = 10.0
"""A longer pause of a partition that stays counts as a failure, on however busy a machine."""
MEETING_S = 120.0


@dataclass(frozen=True, slots=True)
class Sat:
    """What became of a case. `pause_s`: the longest of a partition that stays; `records` were processed meanwhile."""

    problems: tuple[str, ...]
    records: int
    pause_s: float
    notes: int
    stable_after_s: float


class Gap:
    """Lets all cases meet before ZooKeeper goes, and go on when it is back. Times are seconds since 1970."""

    def __init__(self, cases: int) -> None:
        self.ready, self.back = threading.Barrier(cases + 1), threading.Event()
        self.gone_at = self.back_at = 0.0


@dataclass
class Lull(Case):
    """Two consumers and a coordinator while ZooKeeper is away; `joining` = the second one has just joined."""

    joining: bool = False

    def sit_out(self, gap: Gap) -> Sat:
        self.base = self.servers.ends()
        try:
            self._begin()
            before, known = self.node(), len(history.records(self.coordinator, self.topic, 500))
            gap.ready.wait(MEETING_S)
            gap.back.wait()
            self.releases.all()  # with watches anew
            self._await(lambda: self._settled({FIRST, SECOND}), "Stable afterwards")
            stable_after_s = time.time() - gap.back_at
            self.target = self.servers.ends()
            self._await(self._consumed, "everything is processed")
            return self._judged(gap, before, known, stable_after_s)
        except Failed as error:
            gap.ready.abort()
            return Sat((str(error),), 0, 0.0, 0, 0.0)
        finally:
            self.close()

    def _begin(self) -> None:
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        self._start(COORDINATOR)
        self._start(FIRST)
        if self.joining:
            self._await(lambda: self._settled({FIRST}), "Stable with one")
        self._start(SECOND)
        if self.joining:
            self._await(lambda: '"Stable"' not in self._standing(), "the join is being planned")
        else:
            self._await(lambda: self._settled({FIRST, SECOND}), "Stable with both")

    def _judged(self, gap: Gap, before: TopicNode, known: int, stable_after_s: float) -> Sat:
        evidence, after = self._evidence(), self.node()
        problems = check(evidence).problems()
        if after.generation != before.generation or len(after.incarnations) != len(before.incarnations):
            problems.append(f"another generation or other lives: {before} became {after}")
        if not self.joining:
            problems += needless(before, after, evidence.records[known:])
        elif sum(len(one.moves) for one in evidence.records) != self.servers.partitions + 1:
            problems.append(f"more than one move for a join: {[one.moves for one in evidence.records]}")
        during = [row for row in evidence.rows if gap.gone_at <= row.processed_at <= gap.back_at]
        staying = [p for p, owner in after.assignments.items() if before.assignments.get(p) == owner]
        pause_s = longest_pause_s(during, staying, gap.gone_at, gap.back_at)
        if pause_s > LIMIT_S:
            problems.append(f"a partition that stays paused for {pause_s:.1f} s")
        return Sat(
            tuple(problems), len(during), round(pause_s, 3), len(evidence.records) - known, round(stable_after_s, 2)
        )


def needless(before: TopicNode, after: TopicNode, new: Sequence[Record]) -> list[str]:
    """What was decided of a topic that was Stable and had no reason to move: anything but a note of who is a target."""
    found = []
    if (after.assignments, after.since, after.epoch) != (before.assignments, before.since, before.epoch):
        found.append(f"decided: {before} became {after}")
    if any(one.moves or (one.source, one.target) != (State.STABLE, State.STABLE) for one in new):
        found.append(f"more than a note: {new}")
    return found


def longest_pause_s(rows: Sequence[Row], partitions: Sequence[int], begin: float, end: float) -> float:
    """The longest time between two rows of one partition, the borders included."""
    found = 0.0
    for partition in partitions:
        times = [begin, *sorted(row.processed_at for row in rows if row.partition == partition), end]
        found = max(found, *(later - earlier for earlier, later in pairwise(times)))
    return found


def _run(turn: Turn) -> None:
    minutes = turn.wanted.outage_min
    keys = [f"{minutes:g} min, {kind}, {number}" for number, kind in enumerate(KINDS)]
    due = turn.notes.due(keys)
    if not due or turn.over():
        return
    with EmbeddedZooKeeper(turn.folder / "zookeeper") as zookeeper, EmbeddedKafka(turn.folder / "kafka") as kafka:
        servers = Servers(zookeeper.connect_string, kafka.bootstrap_servers, turn.folder.name)
        gap = Gap(len(due))
        try:
            with ThreadPoolExecutor(len(due)) as pool:
                sitting = [
                    pool.submit(Lull(servers, f"o{n}", turn.folder / str(n), joining=JOINING in key).sit_out, gap)
                    for n, key in enumerate(due)
                ]
                try:
                    _away(zookeeper, gap, 60 * minutes)
                finally:
                    gap.back.set()
                for key, one in zip(due, sitting, strict=True):
                    turn.notes.add(OUTAGE, key, **asdict(one.result()))
        finally:
            servers.close()


def _away(zookeeper: EmbeddedZooKeeper, gap: Gap, seconds: float) -> None:
    gap.ready.wait(MEETING_S)
    gap.gone_at = time.time()
    zookeeper.kill()
    time.sleep(seconds)
    zookeeper.start()
    gap.back_at = time.time()


def _summary(notes: Notes, _: Wanted) -> str:
    lines = notes.of(OUTAGE)
    stable = [one for one in lines if JOINING not in one["key"]]
    return (
        f"{len(lines)} cases, {', '.join(sorted({one['key'].split(',')[0] for one in lines}))}: "
        f"{sum(one['records'] for one in lines)} records processed meanwhile, the longest pause of a partition that stays "
        f"{figure(lines, 'pause_s'):.2f} s; afterwards {sum(one['notes'] for one in stable)} notes and no move where it was "
        f"Stable, one move where one was under way; Stable at most {figure(lines, 'stable_after_s'):.1f} s after its start"
    )


PART = Part(OUTAGE, _run, _summary)
