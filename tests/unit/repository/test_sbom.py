"""The list of a release's tested components."""

import re
from pathlib import Path

from tests import sbom

ROOT = Path(__file__).parents[3]


def test_it_names_every_frozen_package_and_every_jar_once_with_a_checksum() -> None:
    components = sbom.bill()["components"]
    places = [one["bom-ref"] for one in components]
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"[0-9a-f]{64}", file["content"]) for one in components for file in one["hashes"])
    assert all(one["hashes"] for one in components)
    frozen = sbom.pinned((ROOT / "requirements.txt").read_text())
    assert len([place for place in places if place.startswith("pkg:pypi/")]) == len(frozen)
    assert "pkg:maven/org.apache.kafka/kafka_2.13@4.3.1" in places
    assert "pkg:maven/org.apache.kafka/kafka-clients@4.3.1" in places
    assert "pkg:maven/org.eclipse.jdt/ecj@3.45.0" in places


def test_every_set_of_jars_is_compared_with_checksums() -> None:
    """Only `ensure_jars` fetches, and refuses files without a checksum."""
    fetching = [
        str(file.relative_to(ROOT))
        for folder in ("coordinator_tasks", "spark_apps", "plugins", "benchmarks", "tests")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if '"--pack' + 'ages"' in file.read_text(encoding="utf-8")
    ]
    assert fetching == ["coordinator_tasks/devstack/embedded/jars.py"]
