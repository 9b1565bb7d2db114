"""One delivery after the other is killed at each point of a batch, and the next consumer takes over; then rows are counted.

A walk has a topic with steady traffic and a table. Its lives are plain consumers in processes of their own, each with
everything assigned to it after the former one's death; each dies at the next of the walk's points, the last one does not.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pyarrow as pa

from coordinator_tasks.wiring import Settings
from spark_apps.agent.ownership.batches import Batches
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.agent.settings import Timing
from spark_apps.delivery import Delivery
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.plain import Output, PlainConsumer, Record
from tests.faults.failpoints import Failpoints, Kill, When, enter, wrap_production
from tests.faults.roles import die_with_parent
from tests.integration.agent_site import Site, Traffic, wait_for

BOUND_S = 60.0
TIMING = Timing(commit_timeout_s=1.0, guard_s=0.2, guard_look_s=0.1, commit_s=0.01)
COMMIT = "c/initial/work.perform/GroupOffsets.commit"
BATCH = tuple(f"c/initial/batch/{name}" for name in ("Batches.hand_out", "Batches.cover"))
SINK = tuple(f"c/initial/sink/{name}" for name in ("Sink.transaction", "Sink.rows", "Sink.end"))
CLAIM = "c/initial/sink/Claim.transaction"


def kills(*points: str, nth: int = 3) -> list[Kill]:
    """On either side of the third batch's points, and of the first commit and claim, which begin a holding."""
    return [Kill(point, when, 1 if point == CLAIM else nth) for point in points for when in When]


STARTS = [Kill(COMMIT, When.BEFORE, 1), Kill(COMMIT, When.AFTER, 1)]
POINTS: Mapping[Delivery, Sequence[Kill]] = {
    Delivery.AT_LEAST_ONCE: [*STARTS, *kills(*BATCH, SINK[0], COMMIT)],
    Delivery.AT_MOST_ONCE: [*STARTS, *kills(*BATCH, SINK[0], COMMIT)],
    Delivery.EXACTLY_ONCE: [*STARTS, *kills(CLAIM, *BATCH, *SINK, COMMIT)],
}
KEPT = RowSink("kept", {"consumer": "TEXT"})
TABLES: Mapping[Delivery, Sequence[str]] = {
    Delivery.AT_LEAST_ONCE: ("seen", KEPT.table),
    Delivery.AT_MOST_ONCE: ("seen",),
    Delivery.EXACTLY_ONCE: ("seen",),
}


@dataclass(frozen=True, slots=True)
class Life:
    """One process: its name, the place of its table, and the place of its death."""

    consumer: str
    settings: Settings
    delivery: Delivery
    url: str
    folder: Path
    kills: tuple[Kill, ...]


class MarkedDatabase(Database):
    """With a possible death before a transaction begins, before its commit, and after that."""

    def __init__(self, url: str, points: Failpoints, name: str, lock_wait_s: float | None = None) -> None:
        super().__init__(url, lock_wait_s)
        self._place, self._points, self._name = url, points, name

    def another(self, lock_wait_s: float | None = None) -> "MarkedDatabase":
        return MarkedDatabase(self._place, self._points, "Claim", lock_wait_s)

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        with self._points.around(f"{self._name}.transaction", "sink"), super().transaction() as cursor:
            yield cursor
            with self._points.around(f"{self._name}.end", "sink"):
                pass


class Table:
    """Every delivery of every record: without a key, so that nothing hides what comes twice. At least once writes the same
    rows with their key beside it."""

    def __init__(self, points: Failpoints) -> None:
        self._points = points

    @staticmethod
    def prepare(cursor: Cursor) -> None:
        cursor.execute(
            'CREATE TABLE IF NOT EXISTS seen (topic TEXT, "partition" INTEGER, "offset" BIGINT, consumer TEXT)'
        )

    def store(self, cursor: Cursor, rows: pa.Table) -> None:
        with self._points.around("Sink.rows", "sink"):
            values = [(row["topic"], row["partition"], row["offset"], "") for row in rows.to_pylist()]
            cursor.load("seen", ("topic", "partition", "offset", "consumer"), values)


def consume(life: Life) -> None:
    """A plain consumer that may die anywhere."""
    die_with_parent()
    points = Failpoints("c", life.folder, life.kills)
    wrap_production(points)
    for name in ("hand_out", "cover"):
        setattr(Batches, name, _around(points, name, getattr(Batches, name)))
    database, table = MarkedDatabase(life.url, points, "Sink"), Table(points)

    def sink(topic: str, records: Sequence[Record]) -> None:
        with database.transaction() as cursor:
            Table.prepare(cursor)
            rows = [(topic, one.partition, message.offset(), life.consumer) for one, message in records]
            cursor.load("seen", ("topic", "partition", "offset", "consumer"), rows)
            if KEPT.table in TABLES[life.delivery]:
                KEPT.prepare(cursor)
                KEPT.write(cursor, rows)

    if life.delivery is Delivery.EXACTLY_ONCE:
        output = Output(delivery=life.delivery, store=DatabaseSink(database, Table.prepare, table.store))
    else:
        output = Output(sink, life.delivery)
    settings = ConsumerSettings(life.settings, life.consumer, timing=TIMING, agent_timing=AgentTiming(poll_s=0.5))
    os._exit(PlainConsumer(settings, output).run())


def _around(points: Failpoints, name: str, act: Callable[..., object]) -> Callable[..., object]:
    def acted(self: Batches, *arguments: object) -> object:
        if name == "cover" and self.outstanding is None:
            return act(self, *arguments)
        with points.around(f"Batches.{name}", "batch"):
            return act(self, *arguments)

    return acted


class Walk:
    """Through all points of one delivery, one life after the other.

    `processes`: shared by walks side by side. Starting a process asks all others whether they have ended, and only one thread
    may be told: another one gets 255.
    """

    def __init__(
        self,
        site: Site,
        forks: ForkServerContext,
        folder: Path,
        delivery: Delivery,
        url: str,
        processes: threading.Lock,
    ) -> None:
        self.site, self.forks, self.folder, self.delivery, self.url = site, forks, folder, delivery, url
        self.processes = processes
        self.lives = 0
        self.owned: dict[int, str] = {}

    def run(self, deaths: Sequence[Kill]) -> "dict[str, Counts]":
        """All deaths, then a life that processes what is left; by table."""
        traffic = Traffic(self.site, per_second=60)
        try:
            for kill in deaths:
                self._live((kill,), f"dies {kill}")
        finally:
            sent = traffic.close()
        self._live((), "processes the rest")
        every = dict.fromkeys(range(self.site.partitions), sent)
        return {table: Counts(self._rows(table), every) for table in TABLES[self.delivery]}

    def _live(self, deaths: tuple[Kill, ...], what: str) -> None:
        self.lives += 1
        name, folder = f"c{self.lives}", self.folder / f"{self.delivery}-{self.lives}"
        folder.mkdir()
        enter(folder, "initial")
        life = Life(name, self.site.settings, self.delivery, self.url, folder, deaths)
        process = self.forks.Process(target=consume, args=(life,), daemon=True)
        with self.processes:
            process.start()

        def ended() -> int | None:
            with self.processes:
                return process.exitcode

        try:
            member = self.site.paths.member(name)
            wait_for(lambda: self.site.zk.find(member) or ended(), f"{name} registers", BOUND_S)
            partitions = range(self.site.partitions)
            self.site.assign(dict.fromkeys(partitions, name), guarded=frozenset(partitions if self.lives > 1 else ()))
            if deaths:
                wait_for(lambda: ended() is not None, f"{name} {what}", BOUND_S)
                assert ended() == -signal.SIGKILL, f"{name} {what}: ended with {ended()}"
            else:
                wait_for(self._all_committed, f"{name} {what}", BOUND_S)
        finally:
            with self.processes:
                process.kill()
                process.join()

    def _all_committed(self) -> bool:
        ends = self.site.offsets.ends(self.site.topic, range(self.site.partitions))
        committed = self.site.committed()
        return all(p in committed and committed[p].offset == end for p, end in ends.items())

    def _rows(self, table: str) -> Counter[tuple[int, int]]:
        database = Database(self.url)
        with database.transaction() as cursor:
            rows = cursor.query(f'SELECT "partition", "offset" FROM {table} WHERE topic = ?', (self.site.topic,))
        database.close()
        return Counter((partition, offset) for partition, offset in rows)


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each record is in the table; `sent` are the records of each partition."""

    seen: Counter[tuple[int, int]]
    sent: Mapping[int, int]

    @property
    def lost(self) -> list[tuple[int, int]]:
        return [(p, offset) for p, sent in self.sent.items() for offset in range(sent) if (p, offset) not in self.seen]

    @property
    def doubled(self) -> list[tuple[int, int]]:
        return sorted(record for record, times in self.seen.items() if times > 1)

    @property
    def invented(self) -> list[tuple[int, int]]:
        return sorted((p, offset) for p, offset in self.seen if offset >= self.sent.get(p, 0))
