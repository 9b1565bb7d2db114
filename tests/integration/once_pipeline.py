"""Exactly once into a table without a key, which shows what comes twice; dies inside a transaction when it is told to."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_apps.database_sink import DatabaseSink
from spark_apps.hooks import ConsumerInterceptor
from spark_apps.pipelines import ExactlyOnce
from spark_apps.sinks import SQLITE, Cursor, Database

UNWANTED = b"unwanted"
COLUMNS = ("partition", "offset", "writer")


class Dropping(ConsumerInterceptor):
    """Leaves out what nobody wants."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.not_equal(batch["value"], pa.scalar(UNWANTED)))


def sink_of(url: str, writer: str) -> DatabaseSink:
    """The table `seen`; a file `die` beside it kills whoever has just added rows, before anything is committed."""
    die = Path(url.removeprefix(SQLITE)).with_name("die")

    def prepare(cursor: Cursor) -> None:
        cursor.execute('CREATE TABLE IF NOT EXISTS seen ("partition" INTEGER, "offset" BIGINT, writer TEXT)')

    def store(cursor: Cursor, rows: pa.Table) -> None:
        cursor.load("seen", COLUMNS, ((row["partition"], row["offset"], writer) for row in rows.to_pylist()))
        if die.exists() and rows.num_rows:
            os.kill(os.getpid(), signal.SIGKILL)

    return DatabaseSink(Database(url), prepare, store)


def build(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    return ExactlyOnce(stream.select("topic", "partition", "offset"), sink_of(settings["database"], "spark"))
