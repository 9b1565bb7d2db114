"""The circumstances of a benchmark: machine, versions and commit, for its result file."""

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from coordinator_tasks.devstack.embedded.jars import KAFKA_VERSION
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
    """Yield a result to fill: the circumstances, the parameters, and the load before and after the block."""
    result = {**circumstances(), **asked, "load_before": os.getloadavg()[0]}
    yield result
    result["load_after"] = os.getloadavg()[0]


def told(result: Mapping[str, Any], *how: str) -> str:
    """Return the line above a table: the method, and the result's machine, load, day and commit."""
    if "cores" in result:
        how = (*how, f"{result['cores']} cores" + (f" ({result['processor']})" if "processor" in result else ""))
    if "memory_gib" in result:
        how = (*how, f"{result['memory_gib']} GiB")
    if "load_after" in result:
        how = (*how, f"load {result['load_before']:.1f} before and {result['load_after']:.1f} at the end of the run")
    when = "its day and commit were not noted"
    if "commit" in result:
        when = f"measured on {result['measured_on']} at commit {result['commit']}"
    return f"{', '.join(how)}; {when}."


def in_rounds(count: int) -> str:
    return "One round" if count == 1 else f"{count} rounds"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _commit() -> str:
    asked = ("git", "-C", str(PROJECT), "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+")
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"
