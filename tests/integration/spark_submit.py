"""How the tests start Spark: small, and with what makes a JVM start fastest, for it lives a minute at most."""

import sys
from pathlib import Path

from coordinator_tasks.java import QUICK_START_OPTIONS

JAVA_OPTIONS = " ".join(QUICK_START_OPTIONS)
SUBMIT = (
    *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "512m"),
    *("--driver-java-options", JAVA_OPTIONS, "--conf", "spark.ui.enabled=false"),
)
