"""`coordinator doctor --airflow` on a real Airflow."""

import time
from collections.abc import Callable, Iterator

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow, Service
from coordinator_tasks.doctor import CheckResult, DoctorFinding, airflow_site
from coordinator_tasks.doctor import airflow as checks
from coordinator_tasks.doctor.airflow import PASSWORD, USER, Api, examine
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.airflow_site import airflow_of, eventually, reconciled

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(600)]
DAGS = {"rebalance", "reconcile", "consumers", "stuck_topic"}


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    with airflow_of(settings, airflow_factory, DAGS) as server:
        yield server


def examined(airflow: EmbeddedAirflow, settings: Settings, password: str = "") -> dict[str, DoctorFinding]:
    api = Api(airflow.base_url, {USER: airflow.username, PASSWORD: password or airflow.password})
    return {one.check: one for one in examine(api, settings.cluster, lambda: airflow_site(settings))}


def test_the_doctor_finds_a_running_airflow_well_and_names_what_is_turned_off(
    airflow: EmbeddedAirflow, settings: Settings
) -> None:
    found = reconciled(airflow, lambda: _well(examined(airflow, settings)))
    assert found["Airflow plugin"].result is CheckResult.OK
    assert found["Airflow pool default_pool"].result is CheckResult.OK
    assert found["Airflow clock"].result is CheckResult.OK
    assert {f"Airflow watcher of {scope}" for scope in ("topics", "fleet")} <= found.keys()
    for name in ("stuck_topic", "reconcile"):
        airflow.client.set_paused(name, True)
    found = examined(airflow, settings)
    assert found["Airflow DAG stuck_topic"].result is CheckResult.WARNING
    assert found["Airflow DAG reconcile"].result is CheckResult.FAILED
    assert found["Airflow DAG reconcile"].mend == "`airflow dags unpause reconcile`"
    for name in ("stuck_topic", "reconcile"):
        airflow.client.set_paused(name, False)
    refused = examined(airflow, settings, password="wrong")
    assert refused["Airflow"].result is CheckResult.FAILED
    assert "Airflow plugin" not in refused


def _well(found: dict[str, DoctorFinding]) -> dict[str, DoctorFinding]:
    """Once nothing has failed, and `reconcile` has run."""
    bad = [one for one in found.values() if one.result is CheckResult.FAILED]
    return {} if bad or found["Airflow reconcile"].result is not CheckResult.OK else found


def test_a_watcher_that_does_not_run_is_found_by_what_it_has_not_told(
    airflow: EmbeddedAirflow, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "TOLD_WITHIN_S", 8.0)

    def watcher() -> DoctorFinding:
        return examined(airflow, settings)["Airflow watcher of topics"]

    ConfluentKafkaAdmin(settings.kafka).create_topic("watched", 1)
    with open_coordinator(settings) as c:
        topics.add_topic(c, "watched", "watched-group", actor=PERSON)
        time.sleep(checks.TOLD_WITHIN_S)
        eventually(lambda: watcher().result is CheckResult.OK)
        airflow.kill(Service.TRIGGERER)
        try:
            topics.set_strategy(c, "watched", "range", {}, PERSON)
            found = eventually(lambda: one if (one := watcher()).result is CheckResult.FAILED else None, 60.0)
            assert "it has not told what changed in ZooKeeper" in found.says
            assert "restart the triggerer" in found.mend
        finally:
            airflow.start(Service.TRIGGERER)
    eventually(lambda: watcher().result is CheckResult.OK)
