"""The Spark settings that make small batches fast, and a check whether a session has them.

A batch of 10 records takes about 380 ms with Spark's defaults, and about 90 ms with these settings.
"""

import os
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from coordinator_tasks.core.errors import Refused
from spark_apps.launch.local_master import LOCAL_IP, LOOPBACK, is_local_master
from spark_apps.releases import FILE_MANAGER

SETTINGS: Mapping[str, str] = {
    # Rename files without asking for the file system's capabilities each time: 205 -> 141 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    "spark.python.unix.domain.socket.enabled": "true",  # 141 -> 92 ms
    # A socket's path has at most 107 bytes, and a YARN container's temporary folder may be longer.
    "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - Spark gives its sockets random names, and others cannot write
    "spark.python.worker.reuse": "true",  # no new Python process per batch
    # A batch for a Python stage fits into the processor's cache: 5 % less processor time than with 4 MiB. Default: 64 MiB.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    "spark.sql.streaming.pollingDelay": "100",  # idle: 0.09 -> 0.03 core
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}
SAFE: Mapping[str, str] = {"spark.ui.killEnabled": "false"}
"""Spark's UI has no authentication, and by default any visitor can stop a job. A site may override this setting."""
SPECULATION = "spark.speculation"
CORES = "spark.cores.max"
DEFAULT_CORES = "2"
"""Cores of a consumer on a standalone master.

Without a limit, the first application gets all cores, and the next gets none.
"""
ROOT = Path(__file__).resolve().parents[2]
STARTUP = ROOT / "spark_apps" / "startup"
"""The `sitecustomize` in this folder makes Python processes start three times as fast."""


def configure(builder: SparkSession.Builder, *, idempotent_sink: bool = False) -> SparkSession.Builder:
    """Add the settings to a session builder. Spark's Python processes use this Python and our packages.

    Settings that are added to the builder later override these. Settings of spark-submit override `SAFE` and
    `DEFAULT_CORES`. `idempotent_sink` allows speculative execution.
    """
    os.environ.update(python_environment(os.environ))
    if is_local_master(builder._options.get("spark.master", "")):  # noqa: SLF001 - its JVM is still to be started
        os.environ.setdefault(LOCAL_IP, LOOPBACK)
    given = given_to_spark([*SAFE, CORES, "spark.master"])
    master = given.pop("spark.master", "")
    cores = {CORES: DEFAULT_CORES} if master.startswith("spark://") else {}
    for name, value in {**SETTINGS, **SAFE, **cores, **given}.items():
        builder = builder.config(name, value)
    return builder if idempotent_sink else builder.config(SPECULATION, "false")


def given_to_spark(names: Iterable[str]) -> dict[str, str]:
    """Return these settings as given to spark-submit, by command line or file of defaults."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - before a session, this alone connects to the JVM
    conf = SparkConf()
    return {name: value for name in names if (value := conf.get(name)) is not None}


def python_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the JVM has to pass to its Python processes.

    If Python starts the JVM, `configure` sets this environment. Under spark-submit the JVM runs already: see
    `start_fast`.
    """
    wanted = [str(ROOT), str(STARTUP)]
    others = [entry for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in wanted]
    python = given.get("PYSPARK_PYTHON", sys.executable)
    return {
        "PYTHONPATH": os.pathsep.join([*wanted, *others]),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": given.get("PYSPARK_DRIVER_PYTHON", python),
    }


def start_fast(spark: SparkSession) -> None:
    """Let the Python processes of this session's functions and sources start three times as fast, under spark-submit
    too.

    Spark gives up on a process after ten seconds. The path is the driver's; hosts without this folder see no change.
    """
    environment = spark.sparkContext.environment
    others = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one and one != str(STARTUP)]
    environment["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *others])


def check(spark: SparkSession, *, idempotent_sink: bool = False) -> list[str]:
    """Compare a running session with the settings. Return a sentence for each setting that makes batches slower.

    Raises `Refused` for speculative execution, unless the sink is declared idempotent or transactional: otherwise two
    attempts of a task would both write.
    """
    # The context's setting, since tasks use it; a session may have another value. Spark accepts blanks and `${...}`.
    speculates = str(spark.sparkContext.getConf().get(SPECULATION, "false")).strip().lower() != "false"
    if speculates and not idempotent_sink:
        raise Refused(
            f"{SPECULATION} is on, and the sink is not declared idempotent or transactional: both attempts of a task "
            f"would write; set {SPECULATION}=false, or declare the sink"
        )
    found = {name: spark.conf.get(name, "") for name in SETTINGS}
    return [
        f"{name} is {found[name] or 'not set'}, small batches are cheapest with {value}"
        for name, value in SETTINGS.items()
        if found[name] != value and name not in _TASTE
    ]


_TASTE = frozenset(
    {"spark.sql.shuffle.partitions", "spark.ui.showConsoleProgress", "spark.python.unix.domain.socket.dir"}
)


def is_local(spark: SparkSession) -> bool:
    """Return whether the driver runs the tasks itself."""
    return is_local_master(str(spark.sparkContext.master))


def ship_packages(spark: SparkSession, folder: Path) -> Path:
    """Send our packages to the executors, as a zip in `folder`. The zip has to stay, because executors may start later.

    The driver's environment does not reach the executors. The zip overrides packages on the executors' hosts.
    """
    target = folder / "spark_apps.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for package in ("spark_apps", "coordinator_tasks"):
            for file in sorted((ROOT / package).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT))
    spark.sparkContext.addPyFile(str(target))
    return target
