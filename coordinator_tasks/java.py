"""Find a Java that runs PySpark and the local servers: JAVA_HOME first, then PATH, then installed versions."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator_tasks.core.errors import Refused

OLDEST = 17
NEWEST = 24
"""PySpark 4.3 needs 17. Java 25 lacks the module ``jdk.incubator.vector``, without which Spark does not start."""

VERSION_TIMEOUT_S = 20.0
# Local servers run only for a short time. With only the first compiler and the serial collector they start fastest and
# need least memory.
QUICK_START_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
INSTALLED = Path("/usr/lib/jvm")
"""Folder of installed Java versions on Debian, Ubuntu, Fedora and relatives, also outside of PATH."""
OPTIONS_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables with which a shell passes options to Java. Two servers would share them: the second could not start with
the same agent or port, or with a second collector.
"""

ADVICE = (
    f"install Java {OLDEST} (Debian and Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless), "
    "or set JAVA_HOME to the folder of one"
)


class JavaUnavailable(Refused, code="KPC-023"):
    """No Java for PySpark and the local servers was found.

    Remedy: install Java 17, or set `JAVA_HOME`.
    """

    def __init__(self, why: str) -> None:
        self.says = f"Java {OLDEST} to {NEWEST} is needed by Spark, ZooKeeper and Kafka, but {why}"
        super().__init__(f"{self.says}: {ADVICE}")


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java: ``home`` is JAVA_HOME for child processes, ``executable`` starts it, ``version`` is the major."""

    home: Path
    executable: Path
    version: int


def find_java() -> Java:
    """Return the first usable Java. `JavaUnavailable` names every candidate that was refused, and why."""
    refused: list[str] = []
    for origin, executable in _candidates():
        version = _major_version(executable)
        if version is not None and OLDEST <= version <= NEWEST:
            return Java(home=_home(executable), executable=executable, version=version)
        refused.append(f"{origin} {_flaw(executable, version)}")
    why = "; ".join(refused) or f"neither JAVA_HOME nor PATH nor {INSTALLED} has one"
    raise JavaUnavailable(why)


def properties(text: str) -> str:
    """Return the text of a properties file with non-ASCII characters escaped, because Java reads it as Latin-1."""
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    for executable in sorted(INSTALLED.glob("*/bin/java"), reverse=True):
        yield str(INSTALLED), executable


def _flaw(executable: Path, version: int | None) -> str:
    if version is None:
        return f"names {executable}, which does not run"
    return f"has Java {version} ({executable}), which is too {'old' if version < OLDEST else 'new'}"


def _home(executable: Path) -> Path:
    """Return the home that Java itself reports. The `java` on PATH may be a script that chooses a version."""
    found = re.search(r"java\.home = (.+)", _answer(executable))
    told = Path(found.group(1).strip()) if found else None
    # In the locale C, Java prints a question mark for each non-ASCII letter.
    return told if told and told.is_dir() else executable.resolve().parent.parent


def _major_version(executable: Path) -> int | None:
    """Return 17 from ``openjdk version "17.0.15"``, 8 from ``java version "1.8.0_292"``; None without an answer."""
    found = re.search(r'version "(?:1\.)?(\d+)', _answer(executable))
    return int(found.group(1)) if found else None


@functools.cache
def _answer(executable: Path) -> str:
    """Return what Java reports about itself; empty if it does not run."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr + answer.stdout
