"""Runs a few test batches before a consumer registers, so that its first partitions do not wait for a cold Spark.

A fresh JVM needs seconds for its first streaming batch: it loads classes, starts Python workers, and waits for their
imports. A registered consumer may get partitions at once, and the partitions would stand still for this time. The
warm-up uses the same parts: a Python source, its workers, `foreachBatch` and Arrow. It uses neither Kafka nor the
application's sink. It also shows whether the executors can read: if they lack our packages, or do not exist, the
consumer does not register.
"""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from coordinator_tasks.core.errors import Refused
from spark_apps.records import reader
from spark_apps.records.columns import Columns, Records, spark_schema
from spark_apps.records.librdkafka import unfit
from spark_apps.tracebacks import reason

FORMAT = "assigned-kafka-warm-up"
BATCHES = 3
TASKS = 2
LIMIT_S = 60.0
FIRST_LIMIT_S = 180.0
"""The limit of the first batch: executors have to start first, slowly on a busy host."""
STOP_S = 10.0
POLL_S = 0.05
SLOW_START = "Python worker failed to connect back"
"""Spark gives its Python process ten seconds to start. No setting changes this, and a busy host needs longer."""
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
    """Has `BATCHES` batches of `TASKS` tasks; each task has one record."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before the first batch."""
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the next batch, up to the last."""
        return {"batch": min(BATCHES, int(start["batch"]) + 1)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """As many tasks as a small batch has."""
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield a record without a value, made like a real record.

        The worker then imports the reader and checks its library.
        """
        log.debug("%s reads %s", reader.GROUP, "by consume()" if unfit() else "from librdkafka's own queue")
        number, empty = np.zeros(1, np.int64), pa.nulls(1, pa.binary())
        small = number.astype(np.int32)
        yield Columns(False, True, "", 0).build("", Records(empty, empty, small, number, number, small), number)


def warm_up(spark: SparkSession, leaving: Callable[[], bool] = lambda: False) -> int:
    """Run the batches, at most for `LIMIT_S`, and return the number that passed. Raises `Refused` if none passes.

    A consumer that cannot read a test batch cannot read a real batch, and its partitions would stop. `leaving`: whether
    a leave was requested meanwhile; then do not wait.
    """
    began_s = time.monotonic()
    done: list[int] = []
    last: BaseException | None = None

    def over() -> bool:
        return leaving() or time.monotonic() - began_s > (LIMIT_S if done else FIRST_LIMIT_S)

    while not (done or over()):
        error = _run(spark, done, over)
        last = error or last
        if error is not None and SLOW_START not in str(error):
            break
    if not done and not leaving():
        why = f"none was read within {FIRST_LIMIT_S:g} s" if last is None else reason(last)
        raise Refused(
            f"the executors of {spark.sparkContext.master} cannot read a test batch, so this consumer does not register: "
            f"{why}; check that they start, and have Python, pyspark, pyarrow and confluent-kafka; a script of your own sends our "
            "packages by spark_apps.spark.session.ship_packages"
        )
    log.info("warmed up with %d batches in %.1f s", len(done), time.monotonic() - began_s)
    return len(done)


def _run(spark: SparkSession, done: list[int], over: Callable[[], bool]) -> BaseException | None:
    """Run one query until `over`; adds each finished batch to `done`, and returns the error that ended the query."""
    folder = tempfile.mkdtemp(prefix="consumer-warm-up-")

    def collect(batch: DataFrame, number: int) -> None:
        batch.toArrow()
        done.append(number)

    try:
        spark.dataSource.register(WarmUpSource)
        stream = spark.readStream.format(FORMAT).load().withColumn("text", F.col("value").cast("string"))
        query = stream.writeStream.option("checkpointLocation", folder).foreachBatch(collect).start()
        while len(done) < BATCHES and query.isActive and not over():
            time.sleep(POLL_S)
        failed = query.exception()
        # Without executors Spark waits for its tasks for ever: do not wait for the stop.
        stopper = threading.Thread(target=_stop, args=(query,), daemon=True)
        stopper.start()
        stopper.join(STOP_S)
    except (Py4JError, PySparkException, OSError) as error:
        log.warning("the warm-up failed", exc_info=True)
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def _stop(query: StreamingQuery) -> None:
    with suppress(Py4JError, PySparkException, OSError):
        query.stop()
