"""Pipelines that do not bear some records: a function of Python, a cast, a stage or the table refuses the record."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from spark_apps import AtLeastOnce, ExactlyOnce, OnError
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink

POISON = {"function": b"poison-function", "cast": b"poison-cast", "table": b"5000"}
NUMBERS = RowSink("numbers", {"number": "INTEGER NOT NULL CHECK (number < 1000)"})
ANY = OnError("dead-letter", share=0.5, per_minute=1_000)


def parsed(stream: DataFrame) -> DataFrame:
    text = F.udf(_checked, "string")(F.col("value"))
    return stream.select("topic", "partition", "offset", text.cast("int").alias("number"))


def _checked(value: bytes) -> str:
    if value == POISON["function"]:
        raise ValueError("this function does not bear poison")
    return value.decode()


def build(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    return ExactlyOnce(parsed(stream), sink_of(settings), on_error=ANY)


def staged(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    """The records of the stream itself go through a stage of Python, in blocks."""

    def checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if POISON["function"] in batch["value"].to_pylist():
                raise ValueError("this stage does not bear poison")
            yield batch

    return ExactlyOnce(parsed(stream.mapInArrow(checked, stream.schema)), sink_of(settings), on_error=ANY)


def at_least_once(stream: DataFrame, settings: Mapping[str, str]) -> AtLeastOnce:
    database = Database(settings["database"])

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow()
        with database.transaction() as cursor:
            NUMBERS.prepare(cursor)
            NUMBERS.write(cursor, [list(row.values()) for row in rows.to_pylist()])

    return AtLeastOnce(parsed(stream), write, on_error=ANY)


def sink_of(settings: Mapping[str, str]) -> DatabaseSink:
    def store(cursor: Cursor, rows: pa.Table) -> None:
        NUMBERS.append(cursor, [list(row.values()) for row in rows.to_pylist()])

    return DatabaseSink(Database(settings["database"]), NUMBERS.prepare, store)
