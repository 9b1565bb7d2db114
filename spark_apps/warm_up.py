"""Runs a few made-up batches before a consumer registers, so that its first partitions do not pay for a cold Spark.

A fresh JVM needs seconds for its first streaming batch: classes are loaded, Python workers started and their imports done.
Whoever is registered may be given partitions at once, and they would stand still for as long. The warm-up goes the same
ways: a Python source, its workers, `foreachBatch` and Arrow; it touches neither Kafka nor the application's sink.
"""

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from spark_apps import reader
from spark_apps.columns import Columns, Records, spark_schema
from spark_apps.librdkafka import unfit

FORMAT = "assigned-kafka-warm-up"
BATCHES = 3
TASKS = 2
LIMIT_S = 60.0
POLL_S = 0.05
log = logging.getLogger(__name__)


class WarmUpSource(DataSource):
    """A stream of small batches with the columns of the real source."""

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the real source."""
        return spark_schema(False, True)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's signature)
        """The reader."""
        return WarmUpReader()


class WarmUpReader(DataSourceStreamReader):
    """Has `BATCHES` batches of `TASKS` tasks each, with a record each."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before the first batch."""
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """One batch more, up to the last."""
        return {"batch": min(BATCHES, int(start["batch"]) + 1)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """As many tasks as a small batch has."""
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """A record without a value, made as real ones are. The worker has imported what reads them and checked its library."""
        log.debug("%s reads %s", reader.GROUP, "by consume()" if unfit() else "from librdkafka's own queue")
        number, empty = np.zeros(1, np.int64), pa.nulls(1, pa.binary())
        small = number.astype(np.int32)
        yield Columns(False, True, "", 0).build("", Records(empty, empty, small, number, number, small), number)


def warm_up(spark: SparkSession) -> bool:
    """Run the batches, at most for `LIMIT_S`; False if they failed, which costs time later and nothing else."""
    began_s = time.monotonic()
    folder = tempfile.mkdtemp(prefix="consumer-warm-up-")
    done: list[int] = []

    def collect(batch: DataFrame, number: int) -> None:
        batch.toArrow()
        done.append(number)

    try:
        spark.dataSource.register(WarmUpSource)
        stream = spark.readStream.format(FORMAT).load().withColumn("text", F.col("value").cast("string"))
        query = stream.writeStream.option("checkpointLocation", folder).foreachBatch(collect).start()
        while len(done) < BATCHES and query.isActive and time.monotonic() - began_s < LIMIT_S:
            time.sleep(POLL_S)
        query.stop()
    except (Py4JError, PySparkException, OSError):
        log.warning("the warm-up failed; the first batch will take longer", exc_info=True)
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    log.info("warmed up with %d batches in %.1f s", len(done), time.monotonic() - began_s)
    return len(done) == BATCHES
