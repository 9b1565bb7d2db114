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


def test_a_drivers_account_makes_pods_with_its_clusters_secret_alone() -> None:
    """An account with the right to make pods could mount any Secret of the namespace. A policy names the Secrets of Spark's accounts."""
    documents = [document for name, document in DOCUMENTS if name == "secrets-policy.yaml"]
    policy, binding = (one["spec"] for one in documents)
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Fail", ["Deny"])
    assert binding["policyName"] == documents[0]["metadata"]["name"]
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["resources"], set(rule["operations"])) == (["pods"], {"CREATE", "UPDATE"})
    accounts = {document["metadata"]["name"] for _, document in DOCUMENTS if document.get("kind") == "RoleBinding"}
    (condition,) = policy["matchConditions"]
    pattern = re.search(r"matches\('(.*)'\)", condition["expression"])
    assert pattern
    assert all(re.fullmatch(pattern[1], f"system:serviceaccount:shop:{name}") for name in accounts)
    said = " ".join(one["expression"] for one in (*policy["validations"], *policy["variables"]))
    for way in ("f.secretRef", "secretKeyRef", "initContainers", "serviceAccountName"):
        assert way in said, f"a pod can get a Secret by {way}"
    assert "e.valueFrom.secretKeyRef.name == variables.secret" in said, "a Secret of another cluster"
    label = next(one["expression"] for one in policy["variables"] if one["name"] == "secret")
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert "namespaceObject.metadata.labels['coordinator-secret']" in label
    assert "kubectl label namespace default coordinator-secret=coordinator-main\n" in page
    rights = [rule for _, document in DOCUMENTS if document.get("kind") == "Role" for rule in document["rules"]]
    assert not any(one in ("secrets", "*", "pods/ephemeralcontainers") for rule in rights for one in rule["resources"])


def test_a_drivers_account_makes_no_pod_with_more_rights_or_volumes_than_the_templates() -> None:
    """A volume of the host or of the launcher, a privileged container and the host's processes reach every Secret of a node."""
    policy = next(document for name, document in DOCUMENTS if name == "secrets-policy.yaml")["spec"]
    rules = [one["expression"] for one in policy["validations"]]
    volumes = next(one for one in rules if "object.spec.volumes" in one)
    assert set(re.findall(r"has\(([vs]\.\w+)\)", volumes)) == {
        *("v.emptyDir", "v.configMap", "v.downwardAPI", "v.projected"),
        *("s.configMap", "s.downwardAPI", "s.serviceAccountToken"),
    }, "only these: any other kind can name a Secret, a claim or the host"
    templates = [spec for where, spec in PODS if where.startswith(("driver-pod.yaml", "executor-pod.yaml"))]
    assert {kind for spec in templates for one in spec["volumes"] for kind in one} == {"name", "emptyDir"}
    said = " ".join(rules)
    for host in ("hostNetwork", "hostPID", "hostIPC"):
        assert f"(!has(object.spec.{host}) || !object.spec.{host})" in said
    for needed in (
        "object.spec.securityContext.runAsNonRoot && ",
        "object.spec.securityContext.seccompProfile.type == 'RuntimeDefault'",
        "has(c.securityContext) && has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPriv",
        "(!has(c.securityContext.privileged) || !c.securityContext.privileged)",
        "'ALL' in c.securityContext.capabilities.drop",
        "size(c.securityContext.capabilities.add) == 0",
        "(!has(c.securityContext.runAsNonRoot) || c.securityContext.runAsNonRoot)",
        "!has(p.hostPort) || p.hostPort == 0",
    ):
        assert needed in said


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
