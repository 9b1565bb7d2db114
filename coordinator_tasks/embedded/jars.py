"""Jars of the embedded servers: ZooKeeper's come with PySpark, Kafka's are fetched once, by pinned version, and cached.

Kafka's jars are resolved by the Ivy inside Spark's own ``spark-submit --packages``, which every installation of PySpark
has and which knows the registries. What it brings is compared with the checksums in ``kafka-4.3.1.sha256`` beside this
file, and becomes visible under its final name in one rename, so that an interrupted fetch leaves nothing half done.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from coordinator_tasks.embedded.cache import cache_folder, exclusive
from coordinator_tasks.embedded.errors import JarsUnavailable
from coordinator_tasks.embedded.java import QUICK_START_OPTIONS, find_java

KAFKA_VERSION = "4.3.1"
PACKAGES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION},org.slf4j:slf4j-simple:1.7.36"
CHECKSUMS = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.sha256")
FETCH_TIMEOUT_S = 300.0

# A class that is in PySpark's own jars and ends at once: Spark resolves the packages and then runs it, and nothing else.
HARMLESS_CLASS = "org.apache.zookeeper.version.VersionInfoMain"

# The part of Spark's some 250 jars that a ZooKeeper server loads; fewer jars start faster.
ZOOKEEPER_JARS = (
    "zookeeper-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
)


def zookeeper_class_path() -> str:
    """Class path of ZooKeeper's server, from PySpark's jars."""
    jars = _pyspark_jars(ZOOKEEPER_JARS)
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise JarsUnavailable(_not_full_pyspark("ZooKeeper's server"))
    return os.pathsep.join(str(jar) for jar in jars)


def kafka_class_path() -> str:
    """Class path of the broker; fetches its jars on first use, at most ``FETCH_TIMEOUT_S``."""
    # Ivy leaves out what Spark itself provides.
    scala = _pyspark_jars(("scala-library-*.jar",))
    if not scala:
        raise JarsUnavailable(_not_full_pyspark("the Scala library of Kafka's broker"))
    return os.pathsep.join(str(jar) for jar in [*sorted(ensure_kafka_jars().glob("*.jar")), *scala])


def ensure_kafka_jars() -> Path:
    """The folder with the verified jars; several processes may ask at once, one of them fetches."""
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    with exclusive(folder.name):
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as scratch_name:
        scratch = Path(scratch_name)
        _resolve(scratch)
        jars = scratch / "jars"
        _verify(jars)
        jars.rename(folder)


def _resolve(scratch: Path) -> None:
    java = find_java()
    home = pyspark_home()
    log_path = scratch.parent / "kafka-fetch.log"
    # fmt: off
    command = [
        str(home / "bin" / "spark-submit"),
        "--conf", f"spark.jars.ivy={scratch}",
        "--packages", PACKAGES,
        "--class", HARMLESS_CLASS,
        "spark-internal",
    ]
    # fmt: on
    options = " ".join(QUICK_START_OPTIONS)
    environment = {**os.environ, "JAVA_HOME": str(java.home), "SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": options}
    try:
        with log_path.open("wb") as log:
            subprocess.run(
                command, check=True, stdout=log, stderr=log, env=environment, timeout=FETCH_TIMEOUT_S, cwd=scratch
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise JarsUnavailable(
            f"Kafka {KAFKA_VERSION}'s jars could not be fetched ({type(error).__name__}): look for the first line with "
            f"'not found' or 'error' in {log_path}, check that the Maven registry can be reached, and start again"
        ) from error


def _verify(jars: Path) -> None:
    pinned = [line.split() for line in CHECKSUMS.read_text().splitlines()]
    expected = {name: checksum for checksum, name in pinned}
    actual = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.glob("*.jar")}
    wrong = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    if wrong:
        shutil.rmtree(jars, ignore_errors=True)
        raise JarsUnavailable(
            f"{len(wrong)} of Kafka {KAFKA_VERSION}'s jars are missing, changed or unexpected (first: {wrong[0]}): "
            f"start again; if it stays so, the registry does not serve what {CHECKSUMS.name} pins"
        )


def pyspark_home() -> Path:
    """Folder of the installed PySpark, found without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarsUnavailable(_not_full_pyspark("what the embedded servers need"))
    return Path(found.origin).parent


def _pyspark_jars(patterns: tuple[str, ...]) -> list[Path]:
    jars = pyspark_home() / "jars"
    return sorted({jar for pattern in patterns for jar in jars.glob(pattern)})


def _not_full_pyspark(missing: str) -> str:
    return (
        f"{missing} is missing from the installed PySpark, which is absent or only its client: "
        "run make install, which installs the full one last"
    )
