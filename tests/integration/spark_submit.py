"""How the tests start Spark: small, and with what makes a JVM start fastest, for it lives a minute at most."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from coordinator_tasks.java import QUICK_START_OPTIONS
from spark_apps.spark import session

ARCHIVE = Path(__file__).parents[2] / "build" / "spark.jsa"
"""Spark's classes, loaded and checked, which takes a third off its start; `spark_classes` writes it. Java does without a file
that is not there, or is not its own."""
JAVA_OPTIONS = " ".join((*QUICK_START_OPTIONS, f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:cds*=off"))
SUBMIT = (
    *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "512m"),
    *("--driver-java-options", JAVA_OPTIONS, "--conf", "spark.ui.enabled=false"),
)


@contextmanager
def local_spark(master: str, conf: Mapping[str, str] | None = None, log_level: str = "ERROR") -> Iterator[SparkSession]:
    """A session in this process until the end of the block."""
    builder = SparkSession.builder.master(master).appName("tests").config("spark.ui.enabled", "false")
    builder = session.configure(builder.config("spark.driver.extraJavaOptions", JAVA_OPTIONS))
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    one = builder.getOrCreate()
    one.sparkContext.setLogLevel(log_level)
    yield one
    one.stop()
