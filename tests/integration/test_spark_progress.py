"""Queries that keep their progress in memory, with the real Spark."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.spark import progress
from tests.integration.spark_submit import local_spark

pytestmark = pytest.mark.integration
LIMIT_S = 120.0
BATCHES = 6


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark("local[2]") as one:
        yield one


@pytest.fixture
def values() -> list[list[int]]:
    """What each batch brought."""
    return []


@pytest.fixture
def writer(spark: SparkSession, values: list[list[int]], tmp_path: Path) -> DataStreamWriter:
    def collect(batch: DataFrame, _: int) -> None:
        values.append([row["value"] for row in batch.collect()])

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    return stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path))


def batches_of(query: StreamingQuery, values: list[list[int]], count: int = BATCHES) -> list[Any]:
    """The progress of so many batches; the query is stopped."""
    deadline = time.monotonic() + LIMIT_S
    while len(values) < count or len(query.recentProgress) < count:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, values
        time.sleep(0.02)
    found = list(query.recentProgress)
    query.stop()
    return found


def written(folder: Path) -> int:
    return sum(not one.name.startswith(".") for one in (folder / "commits").iterdir())


def test_batches_do_not_wait_for_the_checkpoint_and_none_is_left_out_or_comes_twice(
    writer: DataStreamWriter, values: list[list[int]], tmp_path: Path
) -> None:
    found = batches_of(progress.start(writer), values)
    assert [one for batch in values for one in sorted(batch)] == list(range(5 * len(values)))
    assert [one["batchId"] for one in found] == list(range(len(found)))
    assert written(tmp_path) <= 2
    assert max(one["durationMs"]["commitOffsets"] for one in found[1:]) < 10


def test_progress_is_written_now_and_then(
    writer: DataStreamWriter, values: list[list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_MS", 1)
    batches_of(progress.start(writer), values, 3 * BATCHES)
    assert written(tmp_path) >= 3
    assert [one for batch in values for one in sorted(batch)] == list(range(5 * len(values)))


def test_a_spark_that_refuses_it_for_the_sink_writes_before_every_batch(
    writer: DataStreamWriter,
    values: list[list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(progress, "ANY_SINK", "notKnown")
    batches_of(progress.start(writer), values)
    assert written(tmp_path) >= BATCHES - 1
    assert "batches wait for their checkpoint" in caplog.text
    assert sorted(values[0]) == list(range(5))


CHOICES: dict[str, Callable[[DataStreamWriter], DataStreamWriter]] = {
    "the pipeline wants every batch written": lambda writer: writer.option("ASYNCProgressTrackingEnabled", "false"),
    "the query ends by itself": lambda writer: writer.trigger(availableNow=True),
}


@pytest.mark.parametrize("name", CHOICES)
def test_other_queries_are_started_as_they_are(writer: DataStreamWriter, tmp_path: Path, name: str) -> None:
    query = progress.start(CHOICES[name](writer))
    deadline = time.monotonic() + LIMIT_S
    while query.isActive and not (tmp_path / "commits" / "0").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert query.exception() is None
    query.stop()


def test_state_is_kept_where_spark_keeps_it(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().groupBy("value").count()
    writer = stream.writeStream.outputMode("complete").foreachBatch(lambda batch, _: batch.collect())
    query = progress.start(writer.option("checkpointLocation", str(tmp_path)))
    deadline = time.monotonic() + LIMIT_S
    while not (tmp_path / "commits" / "1").exists():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    query.stop()
