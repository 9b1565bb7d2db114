"""Processes dead letters again by a pipeline, in Spark.

With exactly once, one transaction adds the records' rows and deletes their letters.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import KafkaRecord
from spark_apps.dead_letters import Letter, RecordHasProblem
from spark_apps.dead_letters.replaying import REPLAYING, LetterReplay, add_and_delete
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.pipelines import AtLeastOnce, Build, ExactlyOnce, Output
from spark_apps.pipelines.bad_records import Rerun
from spark_apps.pipelines.outputs import rows_of
from spark_apps.state.stateful import Stateful, stateful_sink

SCHEMA = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("timestampType", T.IntegerType()),
        T.StructField("headers", T.ArrayType(T.StructType().add("key", T.StringType()).add("value", T.BinaryType()))),
        T.StructField("consumer", T.StringType()),
        T.StructField("incarnation", T.LongType()),
        T.StructField("epoch", T.LongType()),
    ]
)
"""Columns of the source, with headers and the columns of the assignment."""


class PipelineReplay(LetterReplay):
    """The replay of one topic's letters by its pipeline."""

    def __init__(self, spark: SparkSession, topic: str, build: Build, settings: dict[str, str]) -> None:
        self._spark = spark
        self._rerun = Rerun(topic, lambda frame: build(frame, settings), SCHEMA, REPLAYING)
        empty = self._over(())
        sink = _sink_of(empty)
        if sink is not None:
            self.database = sink.database
        elif isinstance(empty, AtLeastOnce) and (url := empty.on_error.overridden(settings).database):
            self.database = Database(url)
        else:
            raise Refused(
                f"the pipeline of topic {topic} has no database of dead letters: only ExactlyOnce and Stateful with a DatabaseSink, "
                "and AtLeastOnce with OnError(database=...), can replay"
            )

    def attempt(self, letters: Sequence[Letter]) -> None:
        output = self._over(letters)
        if isinstance(output, AtLeastOnce):
            output.each_batch(output.rows, 0)
            self.delete(letters)
            return
        rows, sink = rows_of(output), _sink_of(output)
        if sink is None:
            raise Refused("the pipeline has returned another output than before")
        try:
            add_and_delete(sink, _without_problems(output, rows), letters)
        finally:
            sink.close()

    def _over(self, letters: Sequence[Letter]) -> Output:
        records = {
            (one.place.partition, one.place.offset): KafkaRecord(
                one.key, one.value, one.headers, one.timestamp_ms, one.timestamp_type
            )
            for one in letters
        }
        return self._rerun.over(self._spark, records, {})


def _without_problems(output: Output, rows: pa.Table) -> pa.Table:
    """Return the rows without the problem column; raises `RecordHasProblem` for a row with a problem."""
    column = output.on_error.problem_column if isinstance(output, ExactlyOnce | Stateful) else ""
    if not column:
        return rows
    problem = next((found for found in rows[column].to_pylist() if found is not None), None)
    if problem is not None:
        raise RecordHasProblem(str(problem))
    return rows.drop_columns([column])


def _sink_of(output: Output) -> DatabaseSink | None:
    if isinstance(output, Stateful):
        return stateful_sink(output)
    return output.sink if isinstance(output, ExactlyOnce) and isinstance(output.sink, DatabaseSink) else None
