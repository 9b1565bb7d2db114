"""Writes `build/sbom.json`, the list of what a release is tested with: `python -m tests.sbom`.

CycloneDX 1.6. Components are the frozen Python packages and the jars that are fetched, with their checksums; licences are
those that an installed package names.
"""

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coordinator_tasks import __version__

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "sbom.json"
NAME = "kafka-partition-coordinator"
JAR = re.compile(r"(?P<group>[^_]+)_(?P<name>.+)-(?P<version>\d[^-]*(?:-[A-Za-z][\w-]*)?)\.jar")


def pinned(text: str) -> list[tuple[str, list[str]]]:
    """Each requirement of a frozen file, and the SHA-256 of each of its files."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        words = line.removesuffix("\\").strip()
        if words.startswith("--hash=sha256:"):
            found[-1][1].append(words.removeprefix("--hash=sha256:"))
        elif words and not words.startswith("#"):
            found.append((words, []))
    return found


def packages() -> Iterator[dict[str, Any]]:
    """A component for each frozen Python package; a package with files for several platforms has several checksums."""
    for text, checksums in pinned((ROOT / "requirements.txt").read_text(encoding="utf-8")):
        item = Requirement(text)
        name, version = canonicalize_name(item.name), str(item.specifier).removeprefix("==")
        yield _component(name, version, f"pkg:pypi/{name}@{version}", checksums, _licence(name))


def jars() -> Iterator[dict[str, Any]]:
    """A component for each jar that the build, the demo, the tests or the benchmarks fetch."""
    lines = {
        line
        for folder in ("coordinator_tasks/devstack", "coordinator_tasks/devstack/embedded", "tests", "benchmarks")
        for file in sorted((ROOT / folder).glob("*.sha256"))
        for line in file.read_text(encoding="utf-8").splitlines()
    }
    for checksum, file in sorted((line.split() for line in lines), key=lambda pair: pair[1]):
        found = JAR.fullmatch(file)
        if found is None:
            raise ValueError(f"{file} is not of the form group_name-version.jar")
        place = f"pkg:maven/{found['group']}/{found['name']}@{found['version']}"
        yield _component(f"{found['group']}:{found['name']}", found["version"], place, [checksum], "")


def bill() -> dict[str, Any]:
    """The whole document."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {"type": "application", "name": NAME, "version": __version__, "bom-ref": NAME},
        },
        "components": [*packages(), *jars()],
    }


def _component(name: str, version: str, place: str, checksums: list[str], licence: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": one} for one in checksums]
    made = {"type": "library", "bom-ref": place, "name": name, "version": version, "purl": place, "hashes": hashes}
    return made | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


def _licence(name: str) -> str:
    """One line; empty where the package says nothing, or its whole text."""
    try:
        about = metadata.metadata(name).json
    except metadata.PackageNotFoundError:
        return ""
    said = str(about.get("license_expression") or about.get("license") or "")
    return said if len(said) < 80 and "\n" not in said else ""


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")
    print(f"{OUTPUT.relative_to(ROOT)} names {len(bill()['components'])} components")
