"""Build the jars of the reader in the JVM, `python -m coordinator_tasks.devstack.reader_jar`, if a source has changed.

The same sources give the same jar, byte for byte. Kafka's client and the checksums of both jars are beside it.
`spark_apps.jvm.jars` compares the checksums.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.devstack import java_compiler
from coordinator_tasks.devstack.embedded.cache import exclusive
from coordinator_tasks.devstack.embedded.jars import KAFKA, KAFKA_VERSION
from coordinator_tasks.devstack.java_compiler import ECJ, compile_sources, kafka_clients, provided_jars

ROOT = Path(__file__).resolve().parents[2] / "spark_apps" / "jvm"
SOURCES = ROOT / "java"
"""The root of the Java packages. Files other than Java, such as the list of services, go into the jar unchanged."""
JARS = ROOT / "jars"
READER = "assigned-kafka.jar"
CLIENTS = f"kafka-clients-{KAFKA_VERSION}.jar"
CHECKSUMS = "jars.sha256"
INPUTS = "inputs.sha256"
"""File with the digest of the sources, the compiler and the libraries that made the jars. Not in the wheel."""

FIRST_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can store."""


def build(sources: Path = SOURCES, jars: Path = JARS) -> bool:
    """Build the jars unless they are up to date. Return whether the reader was compiled."""
    if up_to_date(sources, jars):
        return False
    with exclusive("reader-jar"):
        if up_to_date(sources, jars):
            return False
        jars.mkdir(exist_ok=True)
        with TemporaryDirectory(prefix="build-", dir=jars) as scratch:
            _build(sources, jars, Path(scratch))
    return True


def up_to_date(sources: Path = SOURCES, jars: Path = JARS) -> bool:
    """Return whether the jars are those that the present sources, compiler and libraries make."""
    try:
        lines = [line.split() for line in (jars / CHECKSUMS).read_text(encoding="utf-8").splitlines()]
        complete = {name for _, name in lines} == {READER, CLIENTS}
        made_of = (jars / INPUTS).read_text(encoding="utf-8").strip()
        return (
            complete
            and made_of == _inputs(sources)
            and all(_checksum(jars / name) == checksum for checksum, name in lines)
        )
    except (OSError, ValueError):
        return False


def _build(sources: Path, jars: Path, scratch: Path) -> None:
    inputs = _inputs(sources)
    classes = scratch / "classes"
    compile_sources([sources], provided_jars(), classes)
    files = _files(classes) | {name: file for name, file in _files(sources).items() if not name.endswith(".java")}
    _pack(files, scratch / READER)
    shutil.copyfile(kafka_clients(), scratch / CLIENTS)
    checksums = [f"{_checksum(scratch / name)}  {name}\n" for name in (READER, CLIENTS)]
    (scratch / CHECKSUMS).write_text("".join(checksums), encoding="utf-8")
    (scratch / INPUTS).write_text(f"{inputs}\n", encoding="utf-8")
    (jars / INPUTS).unlink(missing_ok=True)  # so that an interrupted build does not count as up to date
    for name in (CLIENTS, READER, CHECKSUMS, INPUTS):
        (scratch / name).replace(jars / name)


def _pack(files: Mapping[str, Path], target: Path) -> None:
    """Write a jar that depends only on the files: sorted, without times, not compressed."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", FIRST_TIME), "Manifest-Version: 1.0\r\n\r\n")
        for name, file in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, FIRST_TIME), file.read_bytes())


def _inputs(sources: Path) -> str:
    """Return the digest of everything from which the jars are made."""
    whole = hashlib.sha256()
    programs = {"program": Path(__file__), "compiler": Path(java_compiler.__file__)}
    pinned = {"ecj": ECJ.checksums, "kafka": KAFKA.checksums}
    for name, file in {**programs, **pinned, **_files(sources)}.items():
        whole.update(f"{name} {_checksum(file)}\n".encode())
    return whole.hexdigest()


def _files(folder: Path) -> dict[str, Path]:
    """Return the files below a folder, sorted by their relative path."""
    found = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    return dict(sorted(found.items()))


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(arguments: Sequence[str] = sys.argv[1:]) -> int:
    """Build the jars; return 1, with the compiler's text, if this fails. `--check` only returns 1 if they are out of
    date.
    """
    if "--check" in arguments:
        return int(not up_to_date())
    try:
        build()
    except CoordinatorError as error:
        print(error.told, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
