"""Two pipelines that write down every processing: at least once into files, and exactly once into a database.

Settings: `auditFolder`, `database`, and `gate`: while that file is there, a batch waits before its sink.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.delivery import Standing, Step, Writer
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
        _pass(gate)
        sink.append(batch.toArrow())

    return _rows(stream).writeStream.foreachBatch(write)


def exactly_once(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    return ExactlyOnce(_rows(stream), Gated(Database(settings["database"]), Path(settings["gate"])))


class Gated(DatabaseSink):
    """Into a table without a key, which shows what comes twice. A batch waits before its transaction, which locks nobody."""

    def __init__(self, database: Database, gate: Path) -> None:
        super().__init__(database, _prepare, _store)
        self._gate = gate

    def write(self, writer: Writer, steps: Mapping[int, Step], rows: pa.Table) -> dict[int, Standing]:
        _pass(self._gate)
        return super().write(writer, steps, rows)


def _pass(gate: Path) -> None:
    while gate.exists():
        time.sleep(LOOK_S)


def _rows(stream: DataFrame) -> DataFrame:
    """The columns of the audit, without the time: a record's value is its number."""
    number = F.col("value").cast("string").cast("long").alias("sequence")
    return stream.select(*COLUMNS[:6], number, F.lit(0.0).alias("produced_at"))


def _prepare(cursor: Cursor) -> None:
    types = ", ".join(f'"{name}" {kind}' for name, kind in AUDIT_COLUMNS)
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({types})")


def _store(cursor: Cursor, rows: pa.Table) -> None:
    now = time.time()
    cursor.load(TABLE, COLUMNS, ([*(row[name] for name in COLUMNS[:-1]), now] for row in rows.to_pylist()))
