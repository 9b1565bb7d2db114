"""The wheel at a site: built, unpacked into a separate folder, and examined by an Airflow without the repository."""

import importlib.metadata
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from coordinator_plugin.forms import FORMS

from coordinator_tasks import __version__
from coordinator_tasks.devstack.reader_jar import CHECKSUMS, CLIENTS, READER
from spark_apps.jvm import jars
from tests.airflow_process import said_by_airflow

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[3]
UPKEEP = 6
"""DAGs other than forms of actions."""
FOUND = """
import json
from airflow.providers_manager import ProvidersManager
from airflow.plugins_manager import _get_plugins
from coordinator_plugin.loader import dags
from coordinator_plugin import __file__ as where
manager = ProvidersManager()
manager.initialize_providers_hooks()
hooks = {n: h.hook_class_name for n, h in manager.hooks.items() if h and n.startswith("kafka_coordinator")}
print(json.dumps({
    "where": where,
    "versions": [p.version for n, p in manager.providers.items() if n == "kafka-partition-coordinator"],
    "hooks": hooks,
    "fields": sorted(n for n in manager.connection_form_widgets if "kafka_coordinator" in n),
    "options": sorted(dict(manager.provider_configs)["kafka-partition-coordinator"]["kafka_coordinator"]["options"]),
    "links": [name for name in manager.extra_links_class_names if "coordinator" in name],
    "notifiers": [name for name in manager.notification if "coordinator" in name],
    "plugins": [plugin.name for plugin in _get_plugins()[0]],
    "dags": {name: [sorted(dag.tags), dag.is_paused_upon_creation] for name, dag in dags().items()},
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_it_holds_everything_that_a_site_needs_and_nothing_of_the_demo(unpacked: Path) -> None:
    packages = {path.name for path in unpacked.iterdir() if not path.name.endswith((".dist-info", ".data"))}
    assert packages == {"coordinator_tasks", "coordinator_plugin", "coordinator_ui", "coordinator_dags", "spark_apps"}
    (monitoring,) = unpacked.glob("*.data/data/share/kafka-partition-coordinator/monitoring")
    assert {path.name for path in monitoring.iterdir()} == {"alerts.yml", "dashboard.json", "prometheus.yml"}
    assert not (unpacked / "coordinator_tasks" / "devstack").exists()
    for typed in packages - {"coordinator_dags"}:
        assert (unpacked / typed / "py.typed").exists(), typed
    templates = ROOT / "plugins" / "coordinator_ui" / "templates"
    shipped = unpacked / "coordinator_ui" / "templates"
    assert {path.name for path in shipped.iterdir()} == {path.name for path in templates.iterdir()}
    assert {path.name for path in (unpacked / "coordinator_dags").glob("*.py")} == {
        path.name for path in (ROOT / "dags").glob("*.py")
    }


def test_it_holds_the_checked_jars_of_sparks_source_and_their_licences(unpacked: Path) -> None:
    reader = unpacked / "spark_apps" / "jvm"
    assert [path.name for path in jars.paths(reader / "jars")] == [READER, CLIENTS]
    assert {path.name for path in (reader / "jars").iterdir()} == {READER, CLIENTS, CHECKSUMS}
    assert not (reader / "java").exists()
    (notice,) = unpacked.glob("*.dist-info/licenses/NOTICE")
    assert CLIENTS.removesuffix(".jar").replace("-4", " 4") in notice.read_text()


def test_a_wheel_of_the_sdist_is_the_same_and_fetches_nothing(wheel: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path), "--target"]
    subprocess.run([*build, "sdist"], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        # Python 3.11.2 of Debian has no filters.
        how: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **how)
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    nothing = {"PATH": "/nowhere", "COORDINATOR_CACHE": "/proc/nowhere"}
    subprocess.run([*build, "wheel"], cwd=source, check=True, capture_output=True, timeout=120, env=nothing)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_with_spark_the_wheel_asks_for_the_pyarrow_that_spark_asks_for(unpacked: Path) -> None:
    (info,) = unpacked.glob("*.dist-info")
    ours = importlib.metadata.PathDistribution(info).requires or []
    theirs = importlib.metadata.requires("pyspark") or []
    (least,) = {found[1] for one in theirs if (found := re.match(r"pyarrow>=(\d+)[0-9.]*; extra == .sql.", one))}
    assert f"pyarrow>={least}; extra == 'spark'" in ours


def found_by_airflow(unpacked: Path, home: Path, **site: str) -> dict[str, Any]:
    return said_by_airflow(FOUND, home=home, path=str(unpacked), **site)


def test_airflow_finds_connections_plugin_and_dags_without_a_copied_folder(unpacked: Path, tmp_path: Path) -> None:
    site = {"COORDINATOR_DAG_PREFIX": "kafka_", "COORDINATOR_DAG_TAGS": "team-data", "COORDINATOR_DAGS_PAUSED": "true"}
    found = found_by_airflow(unpacked, tmp_path, **site)
    assert found["where"] == str(unpacked / "coordinator_plugin" / "__init__.py")
    assert found["versions"] == [__version__]
    assert found["hooks"] == {
        "kafka_coordinator_kafka": "coordinator_plugin.connections.KafkaConnectionHook",
        "kafka_coordinator_zookeeper": "coordinator_plugin.connections.ZooKeeperConnectionHook",
    }
    assert "extra__kafka_coordinator_zookeeper__status_token" in found["fields"]
    assert "dag_prefix" in found["options"]
    assert sorted(found["links"]) == ["coordinator_plugin.links.ClusterPageLink", "coordinator_plugin.links.ResultLink"]
    assert found["notifiers"] == ["coordinator_plugin.notifications.StuckTopicsNotifier"]
    assert "coordinator" in found["plugins"]
    dags = found["dags"]
    assert isinstance(dags, dict)
    assert len(dags) == UPKEEP + len(FORMS)
    assert dags["kafka_rebalance"] == [["coordinator", "main", "team-data"], True]
    assert all(name.startswith("kafka_") and paused for name, (_, paused) in dags.items())


def test_a_prefix_that_no_dag_id_may_have_is_refused(unpacked: Path, tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError,
        match=r"COORDINATOR_DAG_PREFIX or dag_prefix in \[kafka_coordinator\] is 'a b/'; give at most 50",
    ):
        found_by_airflow(unpacked, tmp_path, COORDINATOR_DAG_PREFIX="a b/")
