"""`coordinator doctor --airflow` on a real Airflow, and in its reconcile the ownership audit and the runs of `autoscale`."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow, Service
from coordinator_tasks.devstack.embedded.airflow_client import AirflowClient
from coordinator_tasks.doctor import CheckResult, DoctorFinding, airflow_site
from coordinator_tasks.doctor import airflow as checks
from coordinator_tasks.doctor.airflow import PASSWORD, USER, Api, examine
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import task_log, wait_for_run
from tests.fakes.cluster import PERSON
from tests.integration.airflow_site import airflow_of, all_stable, eventually, reconciled
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(600)]
DAGS = {"rebalance", "reconcile", "consumers", "stuck_topic", "autoscale"}


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


def test_reconcile_audits_and_asks_a_person_about_an_intruder(airflow: EmbeddedAirflow, settings: Settings) -> None:
    topic, group, client = "audited", "audited-group", airflow.client
    ConfluentKafkaAdmin(settings.kafka).create_topic(topic, 2)
    with open_coordinator(settings) as c, StubConsumer(settings, "ann"):
        topics.add_topic(c, topic, group, actor=PERSON)
        eventually(lambda: all_stable(c, [topic]))
        # The stub never commits, so the foreign commit stays.
        place = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
        admin = AdminClient(dict(settings.kafka))  # it has to outlive its futures
        for future in admin.alter_consumer_group_offsets([place]).values():
            future.result(10)
        asked = reconciled(
            airflow, lambda: [r for r in client.dag_runs("stuck_topic") if r["dag_run_id"].startswith("audit__")]
        )
        path = f"/dags/stuck_topic/dagRuns/{asked[0]['dag_run_id']}/hitlDetails?limit=10"
        (question,) = eventually(lambda: client.request("GET", path)["hitl_details"])
        assert question["subject"] == f"ownership of {topic} is disputed"
        assert "KPC-082: partition 0 of audited: somebody without a token has committed it over ann" in question["body"]
        # The run that has asked may still be under way.
        eventually(lambda: logged(client, "KPC-082: partition 0 of audited"))
        eventually(lambda: logged(client, "KPC-085: partition 1 of audited: nothing is committed"))


def logged(client: AirflowClient, text: str) -> bool:
    """Whether a run of `reconcile` that has succeeded says this."""
    runs = [one["dag_run_id"] for one in client.dag_runs("reconcile") if one["state"] == "success"]
    return any(text in task_log(client, "reconcile", run, "look") for run in runs)


def test_autoscale_runs_only_while_a_fleet_has_limits_and_when_a_person_asks(
    airflow: EmbeddedAirflow, settings: Settings
) -> None:
    client = airflow.client

    def reconcile_once() -> None:
        assert wait_for_run(client, "reconcile", client.trigger("reconcile"), 180.0) == "success"

    def ended() -> list[str]:
        runs = client.dag_runs("autoscale")
        assert "failed" not in {one["state"] for one in runs}
        return [one["dag_run_id"] for one in runs if one["state"] == "success"]

    reconcile_once()
    assert not client.dag_runs("autoscale"), "no fleet has limits"
    with open_coordinator(settings) as c, StubConsumer(settings, "web-0"):
        autoscale.set_growth(c, "web", Limits())
        (run, *_) = reconciled(airflow, ended)
        assert "web: " in task_log(client, "autoscale", run, "look")
        autoscale.end_growth(c, "web")
        reconcile_once()  # a run that has begun before may start one more
        before = len(client.dag_runs("autoscale"))
        reconcile_once()
        assert len(client.dag_runs("autoscale")) == before
    by_hand = client.trigger("autoscale")
    assert wait_for_run(client, "autoscale", by_hand, 180.0) == "success"
    assert "no fleet has limits of growth" in task_log(client, "autoscale", by_hand, "look")


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
