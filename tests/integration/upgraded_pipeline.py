"""Two pipelines that write down every processing: at least once into files, and exactly once into a database.

Settings: `auditFolder` and `gate` of the first one: while that file is there, a batch waits before its sink. `database` and `die` of
the second one: the first application that finds that file with its next records removes it, and dies inside its transaction.
"""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.delivery.audit_sink import AUDIT_COLUMNS, AuditSink
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.pipelines import ExactlyOnce

TABLE = "audit"
COLUMNS = tuple(name for name, _ in AUDIT_COLUMNS)
LOOK_S = 0.05


def at_least_once(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    sink, gate = AuditSink(Path(settings["auditFolder"])), Path(settings["gate"])

    def write(batch: DataFrame, _: int) -> None:
        while gate.exists():
            time.sleep(LOOK_S)
        sink.append(batch.toArrow())

    return _rows(stream).writeStream.foreachBatch(write)


def exactly_once(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    """Into a table without a key, which shows what comes twice."""
    die = Path(settings["die"])

    def store(cursor: Cursor, rows: pa.Table) -> None:
        now = time.time()
        cursor.load(TABLE, COLUMNS, ([*(row[name] for name in COLUMNS[:-1]), now] for row in rows.to_pylist()))
        if rows.num_rows:
            with suppress(FileNotFoundError):
                die.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

    return ExactlyOnce(_rows(stream), DatabaseSink(Database(settings["database"]), _prepare, store))


def _rows(stream: DataFrame) -> DataFrame:
    """The columns of the audit, without the time: a record's value is its number, its time that of its producer."""
    number = F.col("value").cast("string").cast("long").alias("sequence")
    return stream.select(*COLUMNS[:6], number, F.col("timestamp").cast("double").alias("produced_at"))


def _prepare(cursor: Cursor) -> None:
    types = ", ".join(f'"{name}" {kind}' for name, kind in AUDIT_COLUMNS)
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({types})")
