"""Exactly once with bad records: a log in memory, a table that refuses some of its records, and the dead letters."""

import uuid
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from coordinator_tasks.core.model import KafkaRecord, Token
from spark_apps.agent.ownership.letters import LetterCounts
from spark_apps.dead_letters import Action, Letter, LetterPlace, OnError, table
from spark_apps.dead_letters import Stage as FailedStage
from spark_apps.dead_letters.halving import Spans
from spark_apps.dead_letters.recovery import Bad, Place, Recovery
from spark_apps.delivery import SinkEntry, SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from tests.fakes.clock import FakeClock

TOKEN, NEWER = Token(3, 1, "g1"), Token(5, 1, "g1")
GENEROUS = OnError("dead-letter", share=1.0, per_minute=1_000_000)
TOPIC = "orders"
ROWS = RowSink("numbers", {"number": "INTEGER NOT NULL CHECK (number < 1000)"})


class Stage:
    """A consumer `a` of one topic with the sink of its pipeline. `during` is called before a store's rows are added."""

    def __init__(self, url: str, policy: OnError = GENEROUS, cluster: str = "") -> None:
        self.url, self.cluster = url, cluster or f"c{uuid.uuid4().hex[:8]}"
        self.clock = FakeClock()
        self.counts = LetterCounts(self.clock)
        self.reads: list[Place] = []
        self.stores = 0
        self.during: Callable[[pa.Table], None] = lambda _: None
        self.sink = DatabaseSink(Database(url), ROWS.prepare, self._store)
        ownership: Any = SimpleNamespace(letters=self.counts, writer=self.writer)
        self.runner: Any = SimpleNamespace(topic=TOPIC, group="g", edit=lambda change: change(ownership))
        self.runner.see = self.runner.edit
        database = self.sink.database if policy.action == Action.DEAD_LETTER else None
        self.recovery = Recovery(policy, self.runner, self.read, database=database)

    def read(self, spans: Spans, most_bytes: int) -> Mapping[Place, KafkaRecord] | None:
        places = [(span.partition, offset) for span in spans for offset in range(span.start, span.end)]
        self.reads += places
        return {
            (p, o): KafkaRecord(b"k", f"{p}-{o}".encode(), (("h", b"\0"), ("n", None)), 1_000 + o) for p, o in places
        }

    def _store(self, cursor: Cursor, rows: pa.Table) -> None:
        self.stores += 1
        self.during(rows)
        ROWS.append(cursor, ([row[name] for name in ROWS.columns] for row in rows.to_pylist()))

    @property
    def writer(self) -> Writer:
        return Writer(self.cluster, TOPIC + self.cluster, "id-1", "a")

    def claim(self, *partitions: int, token: Token = TOKEN) -> Mapping[int, SinkEntry]:
        return self.sink.claim(self.writer, dict.fromkeys(partitions or (0,), token), {})

    def write(self, numbers: Mapping[Place, Any], **bounds: Any) -> Mapping[int, SinkEntry]:
        """Write a batch with these records; the steps reach from the first to the last offset of each partition."""
        steps = {
            p: SinkStep(TOKEN, min(o for q, o in numbers if p == q), max(o for q, o in numbers if p == q) + 1)
            for p in {p for p, _ in numbers}
        }
        return self.recovery.write(
            self.sink, self.writer, {**steps, **bounds.get("steps", {})}, self.rows(numbers), Bad()
        )

    def rows(self, numbers: Mapping[Place, Any]) -> pa.Table:
        places = [*numbers]
        return pa.table(
            {
                "topic": pa.array([self.writer.topic] * len(places)),
                "partition": pa.array([p for p, _ in places], pa.int32()),
                "offset": pa.array([o for _, o in places], pa.int64()),
                "number": pa.array([numbers[place] for place in places], pa.int64()),
            }
        )

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with Database(self.url).transaction() as cursor:
            return cursor.query(statement, values)

    def execute(self, statement: str, *values: Any) -> None:
        """Change the tables as another program does."""
        with Database(self.url).transaction() as cursor:
            cursor.execute(statement, values)

    def stored(self) -> list[Place]:
        return self.query('SELECT "partition", "offset" FROM numbers WHERE topic = ? ORDER BY 1, 2', self.writer.topic)

    def position(self, partition: int = 0) -> Any:
        ((offset,),) = self.query(
            'SELECT "offset" FROM consumer_positions WHERE cluster = ? AND "partition" = ?', self.cluster, partition
        )
        return offset

    def letters(self) -> list[Letter]:
        with Database(self.url).transaction() as cursor:
            if not cursor.has_table(table.TABLE):
                return []
            page = table.find(cursor, 1_000_000, cluster=self.cluster)
        if page.unreadable:
            raise page.unreadable[0]
        return page.letters

    def places(self) -> list[Place]:
        return [(letter.place.partition, letter.place.offset) for letter in self.letters()]

    def close(self) -> None:
        self.sink.close()


def letter(topic: str, partition: int, offset: int) -> Letter:
    return Letter(
        place=LetterPlace("main", topic, "id-1", partition, offset),
        key=b"k\xff",
        value=b"not \x1b[31m json",
        headers=(("trace", b"1"), ("empty", None)),
        timestamp_ms=1_700_000_000_000,
        kind="ValueError",
        error="no\nnumber" + "!" * 100,
        stage=FailedStage.STORE,
        release="1.2.3",
        consumer="a",
        failed_at_ms=1_700_000_001_000,
    )
