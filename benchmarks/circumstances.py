"""On what a benchmark ran: machine, versions and commit, for the file that keeps its result."""

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from coordinator_tasks.embedded.jars import KAFKA_VERSION
from coordinator_tasks.java import find_java

PROJECT = Path(__file__).resolve().parent.parent


def circumstances() -> dict[str, Any]:
    """Names no host and no path. Memory is in GiB; `commit` ends with `+` if the code differs from it."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "measured_on": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "java": find_java().version,
            "kafka": KAFKA_VERSION,
            "confluent-kafka": confluent_kafka.__version__,
            "librdkafka": confluent_kafka.libversion()[0],
            "spark": version("pyspark"),
        },
    }


@contextmanager
def noted(**asked: Any) -> Iterator[dict[str, Any]]:
    """A result to fill: the circumstances, what was asked, and the load before and after the block."""
    result = {**circumstances(), **asked, "load_before": os.getloadavg()[0]}
    yield result
    result["load_after"] = os.getloadavg()[0]


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _commit() -> str:
    asked = ("git", "-C", str(PROJECT), "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+")
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"
