"""The data source `assigned-kafka`: reads the partitions of a topic that the coordinator assigns to this application.

    spark.readStream.format("assigned-kafka").option("subscribe", "orders").load()

Options and columns follow Spark's Kafka source (`records.options`). The source runs in the JVM (`spark_apps/jvm`) and
decides nothing: the source asks the agent in the driver's Python process, whose address `register` gives to the JVM.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_apps.jvm import jars

FORMAT = "assigned-kafka"
ADDRESS = "partitioncoordinator.agent"
"""The JVM's system property with the path of the agent's socket."""


def register(spark: SparkSession, socket: str) -> None:
    """Bind the format to the agent that listens at this path; an earlier agent is replaced for later queries.

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
    """Bind the format to no agent: a load raises an error that tells how to start an agent."""
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


def _load(spark: SparkSession, jar: Path) -> None:
    """Add the jar to the class path of the driver, for all its threads: `ADD JAR` would do so for this thread alone."""
    jvm = _jvm(spark)
    loaders = [jvm.java.lang.Thread.currentThread().getContextClassLoader()]
    while (parent := loaders[-1].getParent()) is not None:
        loaders.append(parent)
    # The outermost is that of the application; a thread that has added jars itself has its own within.
    of_application = [one for one in loaders if one.getClass().getName().endswith("MutableURLClassLoader")][-1]
    of_application.addURL(jvm.java.net.URL(jar.as_uri()))


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public way to the JVM
