"""The same processor under Spark's own `transformWithState` and as `Stateful`, on the same batches, with the real Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.spark.warm_up import SLOW_START
from spark_apps.state.processors import LastValue, RunningTotals, Sessions, TumblingWindows
from spark_apps.state.stateful import Stateful, stateful_sink
from tests.integration.spark_submit import local_spark
from tests.integration.stateful_pipeline import OUTPUT, Counting

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]
STATE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
SCHEMA = "key STRING, partition INT, offset LONG, at TIMESTAMP, amount LONG"
ATTEMPTS = 4
BATCHES = [
    [("tea", 1_000, 3), ("coffee", 2_000, 1), ("tea", 9_000, 4)],
    [("tea", 12_000, 5), ("milk", 3_000, 2)],
    [("coffee", 31_000, 7), ("tea", 30_000, None)],
    [("milk", 90_000, 1)],
]
PROCESSORS: dict[str, tuple[Any, str]] = {
    "counting": (Counting(), "None"),
    "totals": (lambda: RunningTotals("amount LONG"), "None"),
    "last value": (lambda: LastValue("amount LONG, at TIMESTAMP"), "None"),
    "windows": (lambda: TumblingWindows(10_000, "at", "amount LONG"), "EventTime"),
    "sessions": (lambda: Sessions(5_000, "at", "amount LONG"), "EventTime"),
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark("local[2]", STATE) as one:
        yield one


def feed(query: Any, folder: Path) -> None:
    """Give the query one file for each batch, and stop it."""
    offset = 0
    for number, batch in enumerate(BATCHES):
        keys, times, amounts = (list(column) for column in zip(*batch, strict=True))
        offsets = list(range(offset, offset + len(batch)))
        columns = [pa.array(keys), pa.array([0] * len(batch), pa.int32()), pa.array(offsets, pa.int64())]
        columns += [pa.array([one * 1_000 for one in times], pa.timestamp("us", "UTC")), pa.array(amounts, pa.int64())]
        names = ["key", "partition", "offset", "at", "amount"]
        file = folder / f"{number}.parquet"
        if not file.exists():
            pq.write_table(pa.table(columns, names), file)
        offset += len(batch)
        query.processAllAvailable()
    query.stop()


def frame_of(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir()
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return rows.withWatermark("at", "1 second")


@pytest.mark.parametrize("kind", PROCESSORS)
def test_both_return_the_same_rows(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    made, mode = PROCESSORS[kind]
    processor: StatefulProcessor = made if isinstance(made, StatefulProcessor) else made()
    frame = frame_of(spark, tmp_path / "spark")
    key = frame.select("key").schema
    output = getattr(processor, "output", None)
    schema = OUTPUT if output is None else output(frame.schema, key)
    expected: list[tuple[Any, ...]] = []
    found: list[tuple[Any, ...]] = []

    def keep(rows: DataFrame, _: int) -> None:
        expected.extend(tuple(row) for row in rows.collect())

    counted = frame.groupBy("key").transformWithState(processor, schema, "Append", mode)
    for attempt in range(ATTEMPTS):
        expected.clear()
        query = counted.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / f"c{attempt}"))
        try:
            feed(query.start(), tmp_path / "spark")
            break
        except StreamingQueryException as error:  # a busy host: Spark gives its Python process ten seconds
            if SLOW_START not in str(error) or attempt == ATTEMPTS - 1:
                raise

    def store(_: Cursor, rows: pa.Table) -> None:
        given = spark.createDataFrame(rows) if rows.num_rows else None
        found.extend(tuple(row) for row in ([] if given is None else given.collect()))

    sink = DatabaseSink(Database(f"sqlite:///{tmp_path}/rows.sqlite"), lambda _: None, store)
    rows = frame_of(spark, tmp_path / "ours")
    ours = stateful_sink(Stateful(rows, processor, sink, output=schema, time_mode=mode))
    writer, token, offset = Writer("c", "orders", "id", "a"), Token(1, 1, "g"), [0]
    ours.claim(writer, {0: token}, {})

    def write(batch: DataFrame, _: int) -> None:
        table = batch.toArrow()
        start, offset[0] = offset[0], offset[0] + table.num_rows
        assert not ours.write(writer, {0: SinkStep(token, start, offset[0])}, table)

    feed(
        rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "ours-checkpoint")).start(),
        tmp_path / "ours",
    )
    ours.close()
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert found
