"""Into a table without a key, which shows what comes twice; the driver dies within a batch when it is told to.

Settings: `database`; `die`, a file that tells it to die with its next records; `said`, a file where it says what it knows.
"""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener
from spark_apps.pipelines import ExactlyOnce

UNWANTED = b"unwanted"
TABLE = "written"
SAID = "PIPELINE_said"  # a listener is given no settings
COLUMNS = ("topic", "partition", "offset", "writer")


class Dropping(ConsumerInterceptor):
    """Leaves out what nobody wants."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.not_equal(batch["value"], pa.scalar(UNWANTED)))


class Telling(ConsumerRebalanceListener):
    """Says what begins where."""

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> None:
        say(Path(os.environ[SAID]), {"topic": topic, "assigned": dict(offsets)})


def say(file: Path, what: Mapping[str, object]) -> None:
    with file.open("a") as said:
        said.write(json.dumps(what) + "\n")


def prepare(cursor: Cursor) -> None:
    cursor.execute(
        f'CREATE TABLE IF NOT EXISTS {TABLE} (topic TEXT, "partition" INTEGER, "offset" BIGINT, writer TEXT)'
    )


def add(cursor: Cursor, rows: pa.Table, writer: str) -> None:
    cursor.load(TABLE, COLUMNS, ([*(row[name] for name in COLUMNS[:-1]), writer] for row in rows.to_pylist()))


def sink_of(url: str, writer: str, die: Path | None = None) -> DatabaseSink:
    """The file `die` kills whoever has just added rows, before anything is committed."""

    def store(cursor: Cursor, rows: pa.Table) -> None:
        add(cursor, rows, writer)
        if die is not None and die.exists() and rows.num_rows:
            os.kill(os.getpid(), signal.SIGKILL)

    return DatabaseSink(Database(url), prepare, store)


def build(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    sink = sink_of(settings["database"], "spark", Path(settings["die"]))
    return ExactlyOnce(stream.select(*COLUMNS[:-1]), sink)
