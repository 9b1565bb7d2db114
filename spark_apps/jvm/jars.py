"""The jars of Spark's source. In a checkout `make install` builds them from `jvm/java`; the wheel has them."""

import hashlib
from pathlib import Path

from spark_apps.errors import ReaderJarsBroken

FOLDER = Path(__file__).with_name("jars")
CHECKSUMS = "jars.sha256"
"""The file with a line for each jar: SHA-256 and name."""


def paths(folder: Path = FOLDER) -> tuple[Path, ...]:
    """Return the jars for driver and executors, after comparing their checksums."""
    try:
        lines = [line.split() for line in (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()]
        return tuple(_checked(folder / name, checksum) for checksum, name in lines)
    except (OSError, ValueError) as error:
        raise ReaderJarsBroken(
            f"the jars of Spark's source cannot be read in {folder} ({error}): "
            "in a checkout, run make install; elsewhere, install the wheel again"
        ) from error


def _checked(jar: Path, checksum: str) -> Path:
    with jar.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != checksum:
            raise ValueError(f"{jar.name} is not the jar that {CHECKSUMS} names")
    return jar
