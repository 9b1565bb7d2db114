"""Compile Java sources with Eclipse's compiler: a single jar that needs no JDK, only a Java that runs Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from coordinator_tasks.devstack.embedded.errors import ReaderNotCompiled
from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution, ensure_jars, ensure_kafka_jars, pyspark_home
from coordinator_tasks.java import OLDEST, QUICK_START_OPTIONS, find_java

VERSION = "3.45.0"
ECJ = JarSet(
    f"Eclipse's Java compiler {VERSION}",
    Path(__file__).with_name(f"ecj-{VERSION}.sha256"),
    (Resolution(f"org.eclipse.jdt:ecj:{VERSION}"),),
)
COMPILE_TIMEOUT_S = 300.0

KAFKA_CLIENTS = "kafka-clients-*.jar"
PROVIDED = ("spark-*.jar", "scala-library-*.jar", "jackson-*.jar", "slf4j-api-*.jar", "arrow-*.jar")
"""PySpark's jars that the reader may use. Spark's executors have further jars, but their versions change with Spark."""

WARNINGS = (
    "allDeadCode,allOver-ann,conditionAssign,dep-ann,enumSwitch,fallthrough,fieldHiding,hashCode,indirectStatic,"
    "intfRedundant,invalidJavadoc,localHiding,null,static-method,syncOverride,syntheticAccess,unlikelyEqualsArgumentType,"
    "unnecessaryElse,unusedAllocation,unusedArgument,unusedThrown,uselessTypeCheck"
)
"""Warnings of the compiler that are off by default."""


def kafka_clients() -> Path:
    """Return the verified jar of Kafka's Java client. It is fetched on first use."""
    (found,) = ensure_kafka_jars().glob(f"*{KAFKA_CLIENTS}")
    return found


def provided_jars() -> tuple[Path, ...]:
    """Return the jars against which the reader is compiled: Kafka's client, and some of PySpark's."""
    jars = pyspark_home() / "jars"
    return (kafka_clients(), *sorted({jar for pattern in PROVIDED for jar in jars.glob(pattern)}))


def compile_sources(sources: Iterable[Path], class_path: Sequence[Path], target: Path) -> None:
    """Compile source files or folders into the folder `target`. `ReaderNotCompiled` has the compiler's text."""
    _run(["-nowarn", "-d", str(target)], sources, class_path)


def check_sources(sources: Iterable[Path], class_path: Sequence[Path]) -> None:
    """Raise `ReaderNotCompiled` with the compiler's warnings, if there are any."""
    _run([f"-warn:+{WARNINGS}", "-warn:-deprecation", "-failOnWarning", "-d", "none"], sources, class_path)


def _run(options: Sequence[str], sources: Iterable[Path], class_path: Sequence[Path]) -> None:
    (compiler,) = ensure_jars(ECJ).glob("*.jar")
    java = find_java()
    # Only some installations have the list of another release's classes.
    listed = (java.home / "lib" / "ct.sym").exists()
    release = ["--release", str(OLDEST)] if listed else ["-source", str(OLDEST), "-target", str(OLDEST)]
    # fmt: off
    command = [
        str(java.executable), *QUICK_START_OPTIONS, "-jar", str(compiler),
        *release, "-g", "-encoding", "UTF-8", "-proc:none",
        "-classpath", os.pathsep.join(map(str, class_path)),
        *options, *map(str, sources),
    ]
    # fmt: on
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise ReaderNotCompiled(f"Java's compiler could not run ({error}): check {java.executable}") from error
    if done.returncode:
        raise ReaderNotCompiled(f"the compiler refuses the Java sources:\n{(done.stdout + done.stderr).strip()}")
