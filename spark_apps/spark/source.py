"""The data source `assigned-kafka`: reads the partitions of a topic that the coordinator assigns to this application.

    spark.readStream.format("assigned-kafka").option("subscribe", "orders").load()

Options and columns follow Spark's Kafka source (`records.options`). The source runs in the JVM (`spark_apps/jvm`) and
decides nothing. It asks the agent in the driver's Python process, whose address the JVM gets from `register`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from spark_apps.jvm import jars
from spark_apps.records.blocks import BLOCK, BLOCKS, OfBlocks, Stage
from spark_apps.releases import ClassicDataFrame

FORMAT = "assigned-kafka"
ADDRESS = "partitioncoordinator.agent"
"""System property of the JVM with the path of the agent's socket."""


def register(spark: SparkSession, socket: str) -> None:
    """Bind the format to the agent that listens at this path. Later queries use this agent in place of an earlier
    agent.

    Sends the reader's jars to the executors. Raises `ReaderJarsBroken`.
    """
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - Python's context has no jars
    sent = context.listJars().mkString(" ")
    for path in jars.paths():
        _load(spark, path)
        if path.name not in sent:
            context.addJar(str(path))
    _jvm(spark).java.lang.System.setProperty(ADDRESS, socket)


def unregister(spark: SparkSession) -> None:
    """Bind the format to no agent. Loading a stream then raises an error that tells how to start an agent."""
    _jvm(spark).java.lang.System.clearProperty(ADDRESS)


@contextmanager
def bound(spark: SparkSession, socket: str) -> Iterator[None]:
    """Bind the format to another agent for the block."""
    former = _jvm(spark).java.lang.System.getProperty(ADDRESS)
    register(spark, socket)
    try:
        yield
    finally:
        if former is None:
            unregister(spark)
        else:
            _jvm(spark).java.lang.System.setProperty(ADDRESS, former)


def load(spark: SparkSession, **options: str) -> DataFrame:
    """Return the stream of a topic; the options are those of `spark.readStream`."""
    return _records(spark, options)


def load_nothing(spark: SparkSession, **options: str) -> DataFrame:
    """Return the stream of a topic without rows: records are fetched and dropped. Spark's optimizer keeps the fetch."""
    return _records(spark, options, kept=F.rand() < 0)


class AssignedRecords(ClassicDataFrame):
    """The stream of a topic: a data frame whose `mapInArrow` passes on records in blocks, as packed by the reader.

    Spark itself writes each record as a row, and each row into Arrow, before a Python stage. A stage after another
    operation, such as a `select`, still gets its records this way.
    """

    _make_blocks: Callable[[], DataFrame]
    _blocks: DataFrame | None = None

    def mapInArrow(self, func: Stage, schema: Any, barrier: bool = False, profile: Any = None) -> DataFrame:  # noqa: N802 - Spark's
        """Like Spark's, with batches of up to `spark.sql.execution.arrow.maxRecordsPerBatch` records."""
        if self._blocks is None:  # one frame for all stages, so that a query reads the topic once
            self._blocks = self._make_blocks()
        given = (schema, barrier) if profile is None else (schema, barrier, profile)  # Spark 3.5 has no profile
        return self._blocks.mapInArrow(OfBlocks(func), *given)


def _records(spark: SparkSession, options: dict[str, str], kept: Column | None = None) -> DataFrame:
    def blocks() -> DataFrame:
        # Most rows have no block. Without the filter, Spark would measure Arrow's memory after each of them.
        return _stream(spark, {**options, BLOCKS: "true"}, kept).where(F.col(BLOCK).isNotNull())

    records = AssignedRecords(_stream(spark, options, kept)._jdf, spark)  # noqa: SLF001 - a data frame has no public constructor
    records._make_blocks = blocks  # noqa: SLF001 - Spark 4.0 and 4.1 allow no further arguments of the constructor
    return records


def _stream(spark: SparkSession, options: dict[str, str], kept: Column | None) -> DataFrame:
    stream = spark.readStream.format(FORMAT).options(**options).load()
    return stream if kept is None else stream.where(kept)


def _load(spark: SparkSession, jar: Path) -> None:
    """Add the jar to the driver's class path for all threads. `ADD JAR` would add it for this thread only."""
    jvm = _jvm(spark)
    loaders = [jvm.java.lang.Thread.currentThread().getContextClassLoader()]
    while (parent := loaders[-1].getParent()) is not None:
        loaders.append(parent)
    # The outermost loader is the application's. A thread that has added jars itself has another loader inside.
    of_application = [one for one in loaders if one.getClass().getName().endswith("MutableURLClassLoader")][-1]
    of_application.addURL(jvm.java.net.URL(jar.as_uri()))


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public way to the JVM
