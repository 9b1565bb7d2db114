"""The jars of the local servers. PySpark has ZooKeeper's jars. Kafka's are fetched once, by pinned version.

``spark-submit --packages`` fetches Kafka's jars: its Ivy knows the registries, and every full PySpark has it. The jars
are compared with the checksums in ``kafka-4.3.1.sha256`` beside this file. A single rename gives them their final
folder, so an interrupted fetch leaves nothing half done. Tests and benchmarks fetch other jars in the same way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from coordinator_tasks.devstack.embedded.cache import cache_folder, exclusive
from coordinator_tasks.devstack.embedded.errors import JarsUnavailable
from coordinator_tasks.java import find_java

KAFKA_VERSION = "4.3.1"
FETCH_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Resolution:
    """A request to Ivy: `packages` and their dependencies, except `excluded`. Both are lists separated by commas."""

    packages: str
    excluded: str = ""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together. `title`: for people. `checksums`: for each jar a line with SHA-256 and name."""

    title: str
    checksums: Path
    resolutions: tuple[Resolution, ...]

    @property
    def name(self) -> str:
        return self.checksums.stem


KAFKA = JarSet(
    f"Kafka {KAFKA_VERSION}",
    Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.sha256"),
    (Resolution(f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION},org.slf4j:slf4j-simple:1.7.36"),),
)

# A class in PySpark's jars that ends at once. Spark resolves the packages, and then runs only this class.
HARMLESS_CLASS = "org.apache.zookeeper.version.VersionInfoMain"

# The jars, of Spark's 250, that a ZooKeeper server needs. With fewer jars the server starts faster.
ZOOKEEPER_JARS = (
    *("zookeeper-*.jar", "netty-*.jar", "metrics-core-*.jar", "snappy-java-*.jar", "commons-io-*.jar"),
    *("commons-cli-*.jar", "slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j2-impl-*.jar"),
)


def zookeeper_class_path() -> str:
    """Return the class path of a ZooKeeper server, from PySpark's jars."""
    jars = _pyspark_jars(ZOOKEEPER_JARS)
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise JarsUnavailable(_not_full_pyspark("ZooKeeper's server"))
    return os.pathsep.join(str(jar) for jar in jars)


def kafka_class_path() -> str:
    """Return the class path of the broker. On first use the jars are fetched, for at most ``FETCH_TIMEOUT_S``."""
    # Ivy does not fetch jars that Spark has.
    scala = _pyspark_jars(("scala-library-*.jar",))
    if not scala:
        raise JarsUnavailable(_not_full_pyspark("the Scala library of Kafka's broker"))
    return os.pathsep.join(str(jar) for jar in [*sorted(ensure_kafka_jars().glob("*.jar")), *scala])


def ensure_kafka_jars() -> Path:
    """Return the folder with the broker's verified jars."""
    return ensure_jars(KAFKA)


def ensure_jars(wanted: JarSet) -> Path:
    """Return the folder with the verified jars. If several processes ask at the same time, only one fetches."""
    folder = cache_folder() / wanted.name
    if _complete(wanted, folder):
        return folder
    with exclusive(folder.name):
        if not _complete(wanted, folder):
            _fetch(wanted, folder)
    return folder


def _complete(wanted: JarSet, folder: Path) -> bool:
    return _pinned(wanted).keys() == {jar.name for jar in folder.glob("*.jar")}


def _pinned(wanted: JarSet) -> dict[str, str]:
    """Return name → checksum."""
    lines = [line.split() for line in wanted.checksums.read_text().splitlines()]
    return {name: checksum for checksum, name in lines}


def _fetch(wanted: JarSet, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as scratch_name:
        jars = Path(scratch_name) / "jars"
        jars.mkdir()
        for number, resolution in enumerate(wanted.resolutions):
            scratch = Path(scratch_name) / str(number)
            scratch.mkdir()
            _resolve(wanted, resolution, scratch, folder.parent / f"{wanted.name}-fetch.log")
            for jar in (scratch / "jars").glob("*.jar"):
                jar.rename(jars / jar.name)
        _verify(wanted, jars)
        shutil.rmtree(folder, ignore_errors=True)  # left over after jars were deleted
        jars.rename(folder)


def _resolve(wanted: JarSet, resolution: Resolution, scratch: Path, log_path: Path) -> None:
    java = find_java()
    home = pyspark_home()
    # fmt: off
    command = [
        str(home / "bin" / "spark-submit"),
        "--conf", f"spark.jars.ivy={scratch}",
        "--packages", resolution.packages,
        *(["--exclude-packages", resolution.excluded] if resolution.excluded else []),
        "--class", HARMLESS_CLASS,
        "spark-internal",
    ]
    # fmt: on
    limit_s = FETCH_TIMEOUT_S / len(wanted.resolutions)
    spark = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(home / "conf")}  # the shell may be set up for another Spark
    environment = {**os.environ, "JAVA_HOME": str(java.home), **spark}
    try:
        with log_path.open("wb") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, env=environment, timeout=limit_s, cwd=scratch)
    except (OSError, subprocess.SubprocessError) as error:
        raise JarsUnavailable(
            f"{wanted.title}'s jars could not be fetched ({type(error).__name__}): look for the first line with "
            f"'not found' or 'error' in {log_path}, check that the Maven registry can be reached, and start again"
        ) from error


def _verify(wanted: JarSet, jars: Path) -> None:
    expected = _pinned(wanted)
    actual = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.glob("*.jar")}
    wrong = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    if wrong:
        shutil.rmtree(jars, ignore_errors=True)
        raise JarsUnavailable(
            f"{len(wrong)} of {wanted.title}'s jars are missing, changed or unexpected (first: {wrong[0]}): "
            f"start again; if it stays so, the registry does not serve what {wanted.checksums.name} pins"
        )


def pyspark_home() -> Path:
    """Return the folder of the installed PySpark, without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarsUnavailable(_not_full_pyspark("the embedded servers' jar folder"))
    return Path(found.origin).parent


def _pyspark_jars(patterns: tuple[str, ...]) -> list[Path]:
    jars = pyspark_home() / "jars"
    return sorted({jar for pattern in patterns for jar in jars.glob(pattern)})


def _not_full_pyspark(missing: str) -> str:
    return (
        f"{missing} is missing: PySpark is not installed, or only its client; "
        "run make install, which installs the full one last"
    )
