"""Formats the Java sources, and finds warnings in them: `python -m tests.java_style [--write]`.

The formatter is Palantir's (120 columns, as the Python sources), the linter is the compiler's own warnings. Both run on the Java
that runs Spark, if that Java has the module `jdk.compiler`: the runtimes of Debian and Ubuntu have the module. Sources that were
fine in the last run are not looked at again.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.devstack import java_compiler
from coordinator_tasks.devstack.embedded.errors import ReaderNotCompiled
from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution, ensure_jars
from coordinator_tasks.devstack.java_compiler import check_sources, provided_jars
from coordinator_tasks.devstack.reader_jar import SOURCES
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from tests.junit import JUNIT

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "jvm"
STAMP = ROOT / "build" / "java-style.sha256"
VERSION = "2.80.0"
FORMATTER = JarSet(
    f"Palantir's formatter {VERSION}",
    Path(__file__).with_name(f"palantir-java-format-{VERSION}.sha256"),
    (Resolution(f"com.palantir.javaformat:palantir-java-format:{VERSION}"),),
)
OPENED = ("api", "code", "file", "parser", "tree", "util")
"""Packages of the JDK's compiler that the formatter uses."""
LIMIT_S = 240.0


def problems(sources: Path, tests: Path, *, write: bool) -> str:
    """Return what is wrong with the sources and with their tests; empty = nothing. `write` formats instead of comparing."""
    files = java_files(sources, tests)
    if not files:
        return ""
    wrong = format_files(files, write=write)
    try:
        check_sources([sources, tests], [*provided_jars(), *ensure_jars(JUNIT).glob("*.jar")])
    except ReaderNotCompiled as error:
        wrong += f"{error}\n"
    return wrong


def format_files(files: Sequence[Path], *, write: bool) -> str:
    """Format the files, or name those that are not formatted."""
    exports = [f"--add-exports=jdk.compiler/com.sun.tools.javac.{name}=ALL-UNNAMED" for name in OPENED]
    path = os.pathsep.join(map(str, sorted(ensure_jars(FORMATTER).glob("*.jar"))))
    how = ["--replace"] if write else ["--dry-run", "--set-exit-if-changed"]
    java = [str(find_java().executable), *QUICK_START_OPTIONS, *exports, "-cp", path]
    command = [*java, "com.palantir.javaformat.java.Main", "--palantir", *how, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode == 0:
        return ""
    if done.stderr.strip():
        return f"the formatter failed; Java needs the module jdk.compiler:\n{done.stderr.strip()}\n"
    return f"not formatted, run make format:\n{done.stdout.strip()}\n"


def java_files(*folders: Path) -> list[Path]:
    """Return the Java sources below the folders."""
    return sorted(file for folder in folders for file in folder.rglob("*.java"))


def _digest() -> str:
    whole = hashlib.sha256()
    programs = [Path(__file__), Path(java_compiler.__file__), FORMATTER.checksums]
    for file in (*programs, *java_files(SOURCES, TESTS)):
        whole.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at the sources of this checkout."""
    parser = argparse.ArgumentParser(prog="python -m tests.java_style", allow_abbrev=False)
    parser.add_argument("--write", action="store_true", help="format the sources")
    write = parser.parse_args(arguments).write
    if STAMP.exists() and STAMP.read_text() == _digest():
        return 0
    try:
        wrong = problems(SOURCES, TESTS, write=write)
    except CoordinatorError as error:
        wrong = error.told
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    STAMP.parent.mkdir(exist_ok=True)
    STAMP.write_text(_digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
