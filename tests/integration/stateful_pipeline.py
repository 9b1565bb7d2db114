"""Counts records per key, with Spark's own processor, as a stateful pipeline and under Spark's `transformWithState`.

Settings: `database`; `die`, a file whose presence kills the driver inside its next transaction with rows.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.state.processors import TumblingWindows
from spark_apps.state.stateful import Stateful

TABLE, CLOSED = "counted", "closed"
OUTPUT = "key STRING, count LONG, last LONG"


class Counting(StatefulProcessor):
    """Counts the records of each key, and keeps the offset of the last."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "count LONG, last LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        count, last = self.seen.get() or (0, -1)
        for row in rows:
            count, last = count + 1, max(last, row["offset"])
        self.seen.update((count, last))
        yield Row(key=key[0], count=count, last=last)


def prepare(cursor: Cursor) -> None:
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, count BIGINT, last BIGINT)")


def build(stream: DataFrame, settings: Mapping[str, str]) -> Stateful:
    die = Path(settings["die"])

    def store(cursor: Cursor, rows: pa.Table) -> None:
        values = [list(row.values()) for row in rows.to_pylist()]
        cursor.replace(TABLE, ["key", "count", "last"], ["key"], values)
        if die.exists() and rows.num_rows:
            os.kill(os.getpid(), signal.SIGKILL)

    rows = stream.selectExpr("CAST(key AS STRING) AS key", "partition", "offset")
    return Stateful(rows, Counting(), DatabaseSink(Database(settings["database"]), prepare, store), output=OUTPUT)


def make_closed(cursor: Cursor) -> None:
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {CLOSED} (key TEXT, number BIGINT)")


def windows(stream: DataFrame, settings: Mapping[str, str]) -> Stateful:
    """Count the records of each second; the event time of an idle partition goes on after two seconds."""

    def store(cursor: Cursor, rows: pa.Table) -> None:
        cursor.load(CLOSED, ["key", "number"], [[row["key"], row["count"]] for row in rows.to_pylist()])

    rows = stream.selectExpr("CAST(key AS STRING) AS key", "partition", "offset", "timestamp")
    sink = DatabaseSink(Database(settings["database"]), make_closed, store)
    timed = rows.withWatermark("timestamp", "1 second")
    return Stateful(timed, TumblingWindows(1_000, "timestamp", ""), sink, time_mode="EventTime", idle_s=2.0)
