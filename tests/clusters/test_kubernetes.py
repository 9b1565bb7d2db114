"""What a launch creates on a real Kubernetes API server: the driver's pod, and where no secret stands."""

import json
import re
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.kubernetes import SUBMITTER, TOKENS, ApiServer
from tests.clusters.shop import PASSWORD, TOKEN, launch, submit_to_kubernetes
from tests.integration.airflow_site import eventually
from tests.unit.repository.test_pod_security import PODS

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1800)]
MANIFESTS = Path(__file__).resolve().parents[2] / "docs" / "kubernetes"
APPLICATION = "local:///opt/coordinator/spark_apps/main.py"
NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kubernetes")) as started:
        for file in ("cluster-mode.yaml", "secrets-policy.yaml"):
            started.kubectl("apply", "--server-side", "--validate=strict", "--filename", str(MANIFESTS / file))
        started.kubectl("create", "serviceaccount", "other")
        started.kubectl("label", "namespace", "default", "coordinator-secret=coordinator-main")
        started.secret("coordinator-main", settings_json=json.dumps({"status_token": TOKEN}), kafka_json=PASSWORD)
        yield started


def launched(api: ApiServer, monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    spark = {"deploy-mode": "cluster", "namespace": "default"}
    connections: dict[str, dict[str, Any]] = {
        "ZOOKEEPER_DEFAULT": {"conn_type": "generic", "host": "z:1", "extra": {"status_token": TOKEN}},
        "KAFKA_DEFAULT": {
            "conn_type": "kafka",
            "host": "k:1",
            "login": "alice",
            "password": PASSWORD,
            "extra": {"security.protocol": "SASL_SSL"},
        },
        "SPARK_DEFAULT": {"conn_type": "spark", "host": f"k8s://{api.url}", "extra": spark},
    }
    submit_to_kubernetes(monkeypatch)
    submission = "spark.kubernetes.authenticate.submission"
    launch(
        monkeypatch,
        connections,
        cluster="main",
        application=APPLICATION,
        application_args=["--default", "spark_apps.pipelines.audit:build"],
        base=str(base),
        conf={
            f"{submission}.caCertFile": str(api.ca),
            f"{submission}.oauthTokenFile": str(api.tokens[SUBMITTER]),
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark-driver",
            "spark.kubernetes.container.image": "example.com/coordinator:1",
            "spark.kubernetes.driver.podTemplateFile": str(MANIFESTS / "driver-pod.yaml"),
            "spark.kubernetes.executor.podTemplateFile": str(MANIFESTS / "executor-pod.yaml"),
            "spark.driver.memory": "512m",
        },
    )


def test_a_launch_makes_a_driver_whose_secrets_are_references_with_the_rights_of_the_manifests_alone(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launched(api, monkeypatch, tmp_path)
    (pod,) = api.ask(f"{NAMESPACE}/pods")["items"]
    policies = api.ask("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies")["items"]
    closed = [one["spec"]["podSelector"]["matchLabels"]["spark-role"] for one in policies]
    assert set(closed) <= {"executor"}, "the coordinator reaches the driver"
    spec = pod["spec"]
    assert spec["serviceAccountName"] == "spark-driver"
    assert spec["restartPolicy"] == "Never", "the fleet alone starts a dead consumer again"
    (container,) = spec["containers"]
    words = container["args"]
    assert words[words.index("--consumer") + 1] == "a"
    assert words[words.index("--listen") + 1] == "0.0.0.0:7070"
    assert words[words.index("--advertise") + 1] == "address"
    by_reference = {
        one["name"]: (one["valueFrom"]["secretKeyRef"]["name"], one["valueFrom"]["secretKeyRef"]["key"])
        for one in container["env"]
        if "secretKeyRef" in one.get("valueFrom", {})
    }
    assert by_reference == {
        "COORDINATOR_SETTINGS_SECRET": ("coordinator-main", "settings.json"),
        "ASSIGNED_KAFKA_SETTINGS_SECRET": ("coordinator-main", "kafka.json"),
    }
    (settings,) = (one for one in api.ask(f"{NAMESPACE}/configmaps")["items"] if "spark" in one["metadata"]["name"])
    assert "spark.kubernetes.executor.secretKeyRef.ASSIGNED_KAFKA_SETTINGS_SECRET" in json.dumps(settings)

    kinds = ("pods", "configmaps", "services", "events", "serviceaccounts")
    shown = json.dumps([api.ask(f"{NAMESPACE}/{kind}") for kind in kinds])
    for secret in (PASSWORD, TOKEN, TOKENS[SUBMITTER]):
        assert secret not in shown
    assert not list(tmp_path.rglob("*.json")), "nothing is written on the worker, and nothing is uploaded"


def test_who_submits_reads_no_secret(api: ApiServer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        api.ask(f"{NAMESPACE}/secrets/coordinator-main", user=SUBMITTER)


@pytest.mark.parametrize("file", ["launcher.yaml", "consumers.yaml", "network-policies.yaml"])
def test_the_manifests_are_taken_and_nothing_in_them_is_unknown(api: ApiServer, file: str) -> None:
    """Strict validation: a misspelt field is an error, where the API server would otherwise drop it."""
    words = ("apply", "--server-side", "--validate=strict", "--filename", str(MANIFESTS / file))
    wanted = [
        f"{one['kind']}/{one['metadata']['name']}".lower() for one in yaml.safe_load_all((MANIFESTS / file).read_text())
    ]
    applied = api.kubectl(*words, "--output=name").splitlines()
    assert [re.sub(r"\.[a-z0-9.]+/", "/", one) for one in applied] == wanted
    assert api.kubectl("diff", "--server-side", "--filename", str(MANIFESTS / file)) == ""


def test_accounts_of_launcher_and_consumers_may_ask_the_api_for_nothing(api: ApiServer) -> None:
    for name in ("coordinator-launcher", "coordinator-consumer"):
        account = f"--as=system:serviceaccount:default:{name}"
        rights = api.kubectl("auth", "can-i", "--list", "--no-headers", account)
        assert not re.search(r"\b(pods|secrets|configmaps|\*\.\*)\b", rights), rights


CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD: dict[str, Any] = {
    "serviceAccountName": "spark-driver",
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "main", "image": "any", "securityContext": CONFINED}],
}


def of_secret(name: str, key: str) -> dict[str, Any]:
    reference = {"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
    return {"containers": [{**POD["containers"][0], "env": [reference]}]}


def with_volume(**volume: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **volume}]}


def with_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**POD["containers"][0], **fields}]}


REFUSED = {
    "another Secret": (of_secret("coordinator-other", "kafka.json"), "label coordinator-secret"),
    "the coordinator's settings for an executor": (of_secret("coordinator-main", "settings.json"), "its own keys"),
    "a Secret as a volume": (with_volume(secret={"secretName": "coordinator-main"}), "mounts only emptyDir"),
    "a Secret in a projected volume": (
        with_volume(projected={"sources": [{"secret": {"name": "coordinator-main"}}]}),
        "mounts only emptyDir",
    ),
    "a folder of the host": (with_volume(hostPath={"path": "/"}), "mounts only emptyDir"),
    "a claim": (with_volume(persistentVolumeClaim={"claimName": "launcher"}), "mounts only emptyDir"),
    "a whole Secret": (with_container(envFrom=[{"secretRef": {"name": "coordinator-main"}}]), "no whole Secret"),
    "another account": ({"serviceAccountName": "other"}, "runs as spark-driver"),
    "the network of the host": ({"hostNetwork": True}, "shares no network"),
    "root": ({"securityContext": {}}, "runs without root"),
    "more rights": (with_container(securityContext={**CONFINED, "allowPrivilegeEscalation": True}), "gains no rights"),
    "a capability": (
        with_container(securityContext={**CONFINED, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}),
        "gains no rights",
    ),
}
TAKEN = {
    "Kafka's settings by reference": of_secret("coordinator-main", "kafka.json"),
    "an empty folder": with_volume(emptyDir={}),
}


def created_by_driver(api: ApiServer, folder: Path, spec: dict[str, Any]) -> str:
    """Return why the API server refuses a pod that a driver makes; empty if the pod is taken. Nothing is stored."""
    file = folder / "pod.json"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "executor"}, "spec": {**POD, **spec}}
    file.write_text(json.dumps(pod))
    account = "--as=system:serviceaccount:default:spark-driver"
    try:
        api.kubectl("create", "--dry-run=server", account, "--filename", str(file))
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("what", REFUSED)
def test_the_policy_refuses_a_pod_of_spark_with(api: ApiServer, tmp_path: Path, what: str) -> None:
    spec, reason = REFUSED[what]
    eventually(lambda: created_by_driver(api, tmp_path, {"securityContext": {}}), 30.0)
    assert reason in created_by_driver(api, tmp_path, spec)


@pytest.mark.parametrize("what", TAKEN)
def test_the_policy_takes_a_pod_of_spark_with(api: ApiServer, tmp_path: Path, what: str) -> None:
    assert created_by_driver(api, tmp_path, TAKEN[what]) == ""


@pytest.mark.parametrize(("where", "spec"), PODS, ids=[where for where, _ in PODS])
def test_a_namespace_under_the_restricted_standard_takes(api: ApiServer, where: str, spec: dict[str, Any]) -> None:
    """Pod security admission itself. Spark fills in image and account of a template."""
    namespace = f"strict-{[place for place, _ in PODS].index(where)}"
    account = spec.get("serviceAccountName", "spark-driver")
    api.kubectl("create", "namespace", namespace)
    api.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    api.kubectl("create", "serviceaccount", account, f"--namespace={namespace}")
    containers = [{"image": "any", **container} for container in spec["containers"]]
    pod = {"metadata": {"name": "a"}, "spec": {**spec, "serviceAccountName": account, "containers": containers}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert api.ask(pods, pod)["metadata"]["namespace"] == namespace
    loose = {"metadata": {"name": "b"}, "spec": {**pod["spec"], "securityContext": {}}}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        api.ask(pods, loose)
