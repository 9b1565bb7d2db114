"""Every pod of the manifests is confined, and the images install only packages with a checksum.

No writable root, no right of Linux, no more rights to gain.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "docs" / "kubernetes"
DOCUMENTS = [
    (file.name, document)
    for file in sorted(MANIFESTS.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if document
]


def pods(found: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every specification of a pod, at any depth, with its place."""
    if isinstance(found, Mapping):
        if isinstance(found.get("containers"), list):
            yield where, found
        for name, value in found.items():
            yield from pods(value, f"{where}.{name}")
    elif isinstance(found, list):
        for value in found:
            yield from pods(value, where)


PODS = [one for name, document in DOCUMENTS for one in pods(document, f"{name}:{document.get('kind', '')}")]


@pytest.mark.parametrize(("where", "spec"), PODS, ids=[where for where, _ in PODS])
def test_every_pod_is_confined(where: str, spec: Mapping[str, Any]) -> None:
    pod = spec["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    empty = {one["name"] for one in spec["volumes"] if "emptyDir" in one}
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        assert mounted["/tmp"] in empty, "Spark, Python and the sockets between them write there"
        assert "/opt/spark/work-dir" in mounted, "Spark's entry point and the driver write there"


def test_the_walk_finds_every_file_with_pods() -> None:
    assert {where.partition(":")[0] for where, _ in PODS} == {
        *("consumers.yaml", "driver-pod.yaml", "executor-pod.yaml", "launcher.yaml")
    }


def test_pip_installs_only_what_has_a_checksum() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    texts = {one["build"]["dockerfile_inline"] for one in services.values() if "build" in one}
    texts |= {file.read_text() for file in (MANIFESTS / "Dockerfile", MANIFESTS / "airflow.Dockerfile")}
    lines = [line for text in texts for line in re.findall("pip install.*", text)]
    assert len(lines) == 3
    assert all("--require-hashes" in line for line in lines)
    assert not [line for text in texts for line in re.findall(".*(?:curl|wget|ADD|https?:).*", text)], (
        "no other download"
    )
