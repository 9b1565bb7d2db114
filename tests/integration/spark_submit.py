"""How the tests start Spark: small, and with what makes a JVM start fastest, for it lives a minute at most."""

import sys
from pathlib import Path

from coordinator_tasks.java import QUICK_START_OPTIONS

ARCHIVE = Path(__file__).parents[2] / "build" / "spark.jsa"
"""Spark's classes, loaded and checked, which takes a third off its start; `spark_classes` writes it. Java does without a file
that is not there, or is not its own."""
JAVA_OPTIONS = " ".join((*QUICK_START_OPTIONS, f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:cds*=off"))
SUBMIT = (
    *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "512m"),
    *("--driver-java-options", JAVA_OPTIONS, "--conf", "spark.ui.enabled=false"),
)
