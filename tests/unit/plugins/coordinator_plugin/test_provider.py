"""What the installed package tells Airflow, and the classes that it names: options, link and bundle."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow
import jsonschema
import pytest
from coordinator_plugin import bundle, provider, site_options
from coordinator_plugin.links import ClusterPageLink
from coordinator_plugin.operators import PlanOperator


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(provider, "version", lambda _: "9.9.9")
    return provider.provider_info()


def test_airflows_schema_takes_the_information(info: dict[str, Any]) -> None:
    schema = Path(airflow.__file__).parent / "provider_info.schema.json"
    jsonschema.validate(info, json.loads(schema.read_text()))


def test_every_module_and_class_that_is_named_is_there(info: dict[str, Any]) -> None:
    modules = [
        module
        for part in ("hooks", "operators", "triggers", "bundles")
        for one in info[part]
        for module in one["python-modules"]
    ]
    for name in modules:
        importlib.import_module(name)
    classes = [
        *info["extra-links"],
        *info["notifications"],
        *(one["hook-class-name"] for one in info["connection-types"]),
    ]
    for name in classes:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
    assert {one.rpartition(".")[0] for one in classes[:3]} == {
        "coordinator_plugin.links",
        "coordinator_plugin.notifications",
    }


@pytest.mark.parametrize("name", site_options.OPTIONS)
def test_a_variable_wins_over_configuration_and_that_over_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = site_options.OPTIONS[name]
    assert site_options.option(name, {}) == option.default
    monkeypatch.setenv(f"AIRFLOW__KAFKA_COORDINATOR__{name.upper()}", "configured")
    assert site_options.option(name, {}) == "configured"
    assert site_options.option(name, {option.variable: "ours"}) == "ours"


def test_the_link_leads_to_the_page_of_the_tasks_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "main,eu")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow")
    link, key = ClusterPageLink(), SimpleNamespace()
    assert link.get_link(PlanOperator(task_id="a", cluster="eu"), ti_key=key) == "/airflow/coordinator/clusters/eu"
    assert link.get_link(PlanOperator(task_id="b"), ti_key=key) == "/airflow/coordinator/clusters/main"
    assert PlanOperator.operator_extra_links == (link,)


def test_the_bundle_is_the_folder_of_the_installed_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "PACKAGE", "dags")
    made = bundle.CoordinatorDagBundle(name="coordinator")
    assert {path.name for path in made.path.glob("*.py")} >= {"rebalance.py", "reconcile.py"}
    assert made.get_current_version() is None


def test_a_bundle_without_the_installed_dags_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "PACKAGE", "no_such_dags")
    with pytest.raises(ModuleNotFoundError, match="no_such_dags is not installed: install the wheel"):
        bundle.CoordinatorDagBundle(name="coordinator")
