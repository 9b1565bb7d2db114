"""Processors as users write them, and a bench that runs them over batches as two consumers of one topic would."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from coordinator_tasks.core.model import StateOnReset, Token
from spark_apps.delivery import SinkEntry, SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.releases import arrow_schema
from spark_apps.state.sink import StatefulSink
from spark_apps.state.stateful import Stateful, operator_of

OLD, NEW = Token(3, 1, "g1"), Token(5, 1, "g1")
COUNT = T.StructType().add("count", T.LongType())
TOTALS = T.StructType().add("key", T.StringType()).add("count", T.LongType())
ROWS = T.StructType(
    [
        T.StructField("key", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("amount", T.LongType()),
    ]
)
DELAY_MS = 1_000
AT = T.StructField("at", T.TimestampType(), metadata={"spark.watermarkDelayMs": DELAY_MS})
TIMED_ROWS = T.StructType([*ROWS.fields, AT])


class Counting(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        (before,) = self.count.get() or (0,)
        after = before + sum(1 for _ in rows)
        self.count.update((after,))
        yield Row(key=key[0], count=after)


class Bench:
    """The stateful sinks of the consumers `a` and `b`, and a table with what their processors return."""

    def __init__(self, url: str, processor: StatefulProcessor | None = None, **how: Any) -> None:
        self.url, self.cluster = url, f"c{uuid.uuid4().hex[:8]}"
        self.table = f"totals_{self.cluster}"
        self.now_s = 1_000.0
        self.failing = False
        self.partition_count = 0
        self.states: dict[int, StateOnReset] = {}
        self.sinks: dict[str, StatefulSink] = {}
        self.offsets: dict[int, int] = {}
        self.owner, self.token = "b", Token(0, 1, "g1")
        for name in "ab":
            self.deploy(name, processor or Counting(), **how)

    def deploy(
        self, name: str, processor: StatefulProcessor, *, rows: T.StructType = ROWS, output: Any = TOTALS, **how: Any
    ) -> None:
        """Give a consumer a new version of the application."""
        sink = DatabaseSink(Database(self.url), self._prepare, self._store)
        frame: Any = SimpleNamespace(schema=rows)
        self.rows = rows
        operator = operator_of(Stateful(frame, processor, sink, output=output, **how))
        self.columns = operator.output.names
        self.sinks[name] = StatefulSink(sink, operator, lambda: self.now_s)

    def _prepare(self, cursor: Cursor) -> None:
        columns = ", ".join(f'"{name}" TEXT' for name in self.columns)
        cursor.execute(f'CREATE TABLE IF NOT EXISTS "{self.table}" ({columns})')

    def _store(self, cursor: Cursor, rows: pa.Table) -> None:
        cursor.load(self.table, self.columns, [[str(one) for one in row.values()] for row in rows.to_pylist()])
        if self.failing:
            raise ZeroDivisionError

    def writer(self, name: str, topic_id: str = "id-1") -> Writer:
        return Writer(self.cluster, "orders", topic_id, name, self.partition_count, self.states)

    def hand_over(self) -> None:
        """Let the other consumer claim partition 0, at the next epoch."""
        self.owner, self.token = "b" if self.owner == "a" else "a", replace(self.token, epoch=self.token.epoch + 1)
        self.claim(self.owner, self.token)

    def claim(
        self,
        name: str,
        token: Token,
        *partitions: int,
        topic_id: str = "id-1",
        seeks: Mapping[int, int] = MappingProxyType({}),
    ) -> Mapping[int, SinkEntry]:
        tokens = dict.fromkeys(partitions or (0,), token)
        return self.sinks[name].claim(self.writer(name, topic_id), tokens, {**dict.fromkeys(tokens, 0), **seeks})

    def write(
        self, name: str, token: Token, rows: Iterable[tuple[int, Mapping[str, Any]]], topic_id: str = "id-1"
    ) -> Mapping[int, SinkEntry]:
        """Write rows of (partition, columns) with the next offsets, as one batch."""
        starts, ends, given = dict(self.offsets), dict(self.offsets), []
        for partition, columns in rows:
            offset = ends.setdefault(partition, 0)
            starts.setdefault(partition, 0)
            ends[partition] = offset + 1
            given.append({"key": "k", "amount": 1, **columns, "partition": partition, "offset": offset})
        steps = {p: SinkStep(token, starts[p], ends[p]) for p in sorted({p for p, _ in rows})}
        refused = self.sinks[name].write(self.writer(name, topic_id), steps, arrow(given, self.rows))
        self.offsets.update({p: end for p, end in ends.items() if p in steps and p not in refused})
        return refused

    def idle(self, name: str, token: Token, partition: int) -> None:
        """Give an empty range of a partition."""
        offset = self.offsets.get(partition, 0)
        self.sinks[name].write(self.writer(name), {partition: SinkStep(token, offset, offset)}, arrow([], self.rows))

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(Database(self.url)) as database, database.transaction() as cursor:
            return cursor.query(statement, values)

    def execute(self, statement: str, *values: Any) -> int:
        """Change the tables as another program does. Return the number of changed rows."""
        with closing(Database(self.url)) as database, database.transaction() as cursor:
            return cursor.execute(statement, values)

    def damage(self, name: str, value: bytes = b"\xc1") -> int:
        """Overwrite the stored rows of this name. Return their number."""
        return self.execute(
            "UPDATE consumer_state SET value = ? WHERE cluster = ? AND name = ?", value, self.cluster, name
        )

    def totals(self) -> list[tuple[str, ...]]:
        """Return what the processors have returned, in any order of the batches' rows."""
        return sorted(self.query(f'SELECT * FROM "{self.table}"'))

    def stored(self, names: str = 'name, "key", value, expires') -> list[tuple[Any, ...]]:
        """Return the rows of the operators."""
        question = f'SELECT {names} FROM consumer_state WHERE cluster = ? AND operator <> \'\' ORDER BY "partition", "key", name'
        return self.query(question, self.cluster)

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.close()


def arrow(rows: list[dict[str, Any]], schema: T.StructType) -> pa.Table:
    """Return rows as Spark gives them to a sink; `at` is in milliseconds."""
    made = [
        {**row, "at": None if row.get("at") is None else datetime.fromtimestamp(row["at"] / 1_000, UTC)} for row in rows
    ]
    return pa.Table.from_pylist(made, arrow_schema(schema))


def keys(partition: int, text: str) -> list[tuple[int, dict[str, Any]]]:
    """Return a row for each letter, with the letter as key."""
    return [(partition, {"key": letter}) for letter in text]


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    """A bench on the database of the module's fixture `url`."""
    with closing(Bench(url)) as made:
        yield made
