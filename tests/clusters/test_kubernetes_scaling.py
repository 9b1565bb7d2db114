"""The number of pods by the growth policy: KEDA's schema takes the manifest, and its scaler knows every name in it."""

import re
from pathlib import Path

import pytest

from tests.clusters.kubernetes import ApiServer
from tests.clusters.programs import go_module
from tests.integration import keda
from tests.integration.agent_site import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1800)]
KEDA = ("github.com/kedacore/keda/v2", "v2.20.2", "h1:SR60v8uIcelbveS8n/1jcl8tLdBBIbHMxmdOHw8tKqA=")


def test_kedas_schema_takes_the_manifest_and_its_scaler_knows_every_name_in_it(tmp_path: Path) -> None:
    module = go_module(*KEDA)
    schema = module / "config" / "crd" / "bases" / "keda.sh_scaledobjects.yaml"
    with ApiServer(tmp_path / "kubernetes") as api:
        api.kubectl("apply", "--server-side", "--filename", str(schema))
        api.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/scaledobjects.keda.sh")
        words = ("apply", "--server-side", "--validate=strict", "--output=name", "--filename", str(keda.MANIFEST))
        wait_for(lambda: api.find("/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"), "the kind is served")
        assert api.kubectl(*words) == "scaledobject.keda.sh/billing\n"
        assert api.kubectl("diff", "--server-side", "--filename", str(keda.MANIFEST)) == ""
    source = (module / "pkg" / "scalers" / "prometheus_scaler.go").read_text()
    known = dict(re.findall(r'keda:"name=(\w+),([^"]*)"', source))
    given = keda.trigger()["metadata"]
    assert given.keys() <= known.keys()
    assert {name for name, how in known.items() if "optional" not in how and "default=" not in how} <= given.keys()
    assert "default=true" in known["ignoreNullValues"], "without ours, no number would be the number 0"
    assert (keda.trigger()["metricType"], given["threshold"]) == ("AverageValue", "1"), "the number itself"
