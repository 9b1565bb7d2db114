"""Writes the archive of the classes that Spark loads in a consumer: ``python -m tests.integration.spark_classes``.

Java calls this class data sharing. The archive fits the Java and the jars that have written it; `make` writes it anew after
each installation.
"""

import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from coordinator_tasks.java import QUICK_START_OPTIONS
from spark_apps.spark import session
from spark_apps.spark.warm_up import warm_up
from tests.integration.spark_submit import ARCHIVE

EXIT_LIMIT_S = 120.0


def main() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        written = Path(folder) / ARCHIVE.name
        options = " ".join((*QUICK_START_OPTIONS, f"-XX:ArchiveClassesAtExit={written}", "-Xlog:cds*=off"))
        builder = SparkSession.builder.master("local[2]").appName("classes").config("spark.ui.enabled", "false")
        spark = session.configure(builder.config("spark.driver.extraJavaOptions", options)).getOrCreate()
        warm_up(spark, "127.0.0.1:1")
        spark.stop()
        _wait_for_java()
        written.replace(ARCHIVE)


def _wait_for_java() -> None:
    """Java writes the archive when it ends, which it does when its input is closed."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(EXIT_LIMIT_S)


if __name__ == "__main__":
    main()
