"""The number of pods by the growth policy: KEDA's schema takes the manifest, and a real autoscaler follows the number.

KEDA itself does not run here. What it would do stands in `keda` and below, from its source: it asks Prometheus, and makes an autoscaler.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import images
from tests.clusters.external_metrics import external_metrics
from tests.clusters.kubernetes import ApiServer
from tests.clusters.programs import go_module
from tests.integration import keda
from tests.integration.agent_site import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1800)]
KEDA = ("github.com/kedacore/keda/v2", "v2.20.2", "h1:SR60v8uIcelbveS8n/1jcl8tLdBBIbHMxmdOHw8tKqA=")
SET = "/apis/apps/v1/namespaces/default/statefulsets/billing"
PODS = "/api/v1/namespaces/default/pods"
SYNC = ("--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=3s")
"""Fifteen seconds and five minutes are the defaults."""
LIMIT_S = 60.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    """With the documented consumers, as pods that no node runs."""
    started = ApiServer(tmp_path / "kubernetes")
    started.add_controllers(*SYNC)
    with started:
        started.kubectl("apply", "--filename", str(images.MANIFESTS / "consumers.yaml"))
        yield started


def scaled_object() -> dict[str, Any]:
    return dict(yaml.safe_load(keda.MANIFEST.read_text()))


def test_kedas_schema_takes_the_manifest_and_its_scaler_knows_every_name_in_it(api: ApiServer) -> None:
    module = go_module(*KEDA)
    schema = module / "config" / "crd" / "bases" / "keda.sh_scaledobjects.yaml"
    api.kubectl("apply", "--server-side", "--filename", str(schema))
    api.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/scaledobjects.keda.sh")
    words = ("apply", "--server-side", "--validate=strict", "--output=name", "--filename", str(keda.MANIFEST))
    wait_for(lambda: api.find("/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"), "the kind is served", LIMIT_S)
    assert api.kubectl(*words) == "scaledobject.keda.sh/billing\n"
    assert api.kubectl("diff", "--server-side", "--filename", str(keda.MANIFEST)) == ""
    source = (module / "pkg" / "scalers" / "prometheus_scaler.go").read_text()
    known = dict(re.findall(r'keda:"name=(\w+),([^"]*)"', source))
    given = keda.trigger()["metadata"]
    assert given.keys() <= known.keys()
    assert {name for name, how in known.items() if "optional" not in how and "default=" not in how} <= given.keys()
    assert "default=true" in known["ignoreNullValues"], "without ours, no number would be the number 0"


def autoscaler(metric_type: str) -> dict[str, Any]:
    """The one that KEDA makes of the manifest."""
    spec = scaled_object()["spec"]
    (trigger,) = spec["triggers"]
    value = "averageValue" if metric_type == "AverageValue" else "value"
    target = {"type": metric_type, value: trigger["metadata"]["threshold"]}
    selector = {"matchLabels": {"scaledobject.keda.sh/name": "billing"}}
    metric = {"metric": {"name": "s0-prometheus", "selector": selector}, "target": target}
    return {
        "metadata": {"name": "keda-hpa-billing"},
        "spec": {
            "scaleTargetRef": spec["scaleTargetRef"],
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "metrics": [{"type": "External", "external": metric}],
        },
    }


class Scaled:
    """The documented StatefulSet under such an autoscaler. Its pods say that they are ready, since no kubelet does."""

    def __init__(self, api: ApiServer, metric_type: str) -> None:
        self.api = api
        api.ask("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", autoscaler(metric_type))

    def count(self) -> int:
        for pod in self.api.ask(PODS)["items"]:
            if pod["status"]["phase"] == "Pending":
                path = f"{PODS}/{pod['metadata']['name']}/status"
                ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                self.api.ask(path, {**pod, "status": ready}, method="PUT")
        return int(self.api.ask(SET)["spec"]["replicas"])

    def becomes(self, count: int) -> float:
        """Seconds until the set has so many pods."""
        return wait_for(lambda: self.count() == count, f"{count} pods; there are {self.count()}", LIMIT_S)

    def stays(self, count: int, seconds: float = 5.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.count() == count
            time.sleep(0.2)


def test_an_autoscaler_takes_the_number_as_it_is_and_no_number_as_no_change(api: ApiServer, tmp_path: Path) -> None:
    (trigger,) = scaled_object()["spec"]["triggers"]
    told: list[float | None] = [5.0]
    with external_metrics(api, tmp_path / "metrics", lambda: told[-1]):
        scaled = Scaled(api, trigger["metricType"])
        scaled.becomes(5)
        scaled.stays(5)
        told.append(None)
        scaled.stays(5)
        told.append(3.0)
        scaled.becomes(3)
        told.append(40.0)
        scaled.becomes(12)
        told.append(10.0)
        scaled.becomes(10)
        told.append(11.0)
        scaled.stays(10)  # a tenth is within the autoscaler's tolerance
