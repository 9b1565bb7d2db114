"""The forms of actions in a real Airflow: a dry run first, then the effect, and what the history keeps of it."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.model import Actor, Committed
from coordinator_tasks.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service import asked as recorded
from coordinator_tasks.service import directives, fleet, history, store, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import wait_for_run, xcom
from tests.integration.airflow_site import airflow_of, all_stable, cluster_of, eventually
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
RUN_LIMIT_S = 180.0
TOPIC, GROUP = "orders", "billing"
FORMS = {"rebalance", "reconcile", "import_offsets", "undo_offsets", "set_fleet", "scale", "undrain", "redeploy"}


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return cluster_of(zookeeper, kafka)


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    with airflow_of(settings, airflow_factory, FORMS) as server:
        yield server


@pytest.fixture(scope="module")
def c(settings: Settings) -> Iterator[Coordinator]:
    with open_coordinator(settings) as coordinator:
        yield coordinator


@pytest.fixture(scope="module")
def topic(settings: Settings, airflow: EmbeddedAirflow, c: Coordinator) -> Iterator[str]:
    """Two partitions of 100 offsets, committed at 80 and 90; one consumer owns them."""
    assert airflow.base_url
    name, group = f"{TOPIC}-{settings.cluster}", f"{GROUP}-{settings.cluster}"
    admin = ConfluentKafkaAdmin(settings.kafka)
    admin.create_topic(name, 2)
    fill(settings, name)
    topics.add_topic(c, name, group, actor=Actor("command", "ada"))
    with StubConsumer(settings, "a"):
        eventually(lambda: all_stable(c, [name]))
        ConfluentGroupOffsets(settings.kafka, group).commit(name, {0: Committed(80), 1: Committed(90)})
        yield name


def fill(settings: Settings, topic: str) -> None:
    producer = Producer(settings.kafka)
    for number in range(200):
        producer.produce(topic, b"x", partition=number % 2)
    producer.flush()


def asked(airflow: EmbeddedAirflow, form: str, *, dry_run: bool, **given: Any) -> tuple[str, Any]:
    """State of the run and what its task returns."""
    run = airflow.client.trigger(form, {**given, "dry_run": dry_run})
    state = wait_for_run(airflow.client, form, run, RUN_LIMIT_S)
    return state, xcom(airflow.client, form, run, form)


def whole_log(airflow: EmbeddedAirflow, form: str, run: str) -> str:
    """The log of the task's first try, with its errors."""
    path = f"/dags/{form}/dagRuns/{run}/taskInstances/{form}/logs/1"
    return json.dumps(airflow.client.request("GET", path, params={"full_content": True}))


def seeks(c: Coordinator, topic: str) -> dict[int, int]:
    return {p: one.offset for p, one in store.load_nodes(c.zk, c.paths, [topic])[topic].seeks.items()}


def test_offsets_are_imported_and_the_import_is_taken_back(
    airflow: EmbeddedAirflow, c: Coordinator, topic: str
) -> None:
    lines = f"{topic},0,20\n{topic},1,5000\n"
    shown = [
        f"{topic}: partition 0 continues at 20, was at 80: 60 offsets are read again",
        f"{topic}: partition 1 continues at 100, was at 90: 10 offsets are left out; 5000 was asked for, the log ends at 100",
    ]
    assert asked(airflow, "import_offsets", dry_run=True, offsets=lines, why="a test") == ("success", shown)
    assert seeks(c, topic) == {}
    assert asked(airflow, "import_offsets", dry_run=False, offsets=lines, why="a test") == ("success", shown)
    record = next(one for one in history.records(c, topic) if one.cause.startswith("reset offsets"))
    assert (record.actor.kind, record.actor.dag, record.actor.who) == ("airflow", "import_offsets", "admin")
    assert record.cause == "reset offsets of 2 partitions to given offsets (by admin: a test)"
    eventually(lambda: all_stable(c, [topic]))
    state, said = asked(airflow, "undo_offsets", dry_run=False, topic=topic, rebalance="", why="it was right")
    assert (state, said[0]) == ("success", f"{topic}: this takes back {record.rebalance}")
    undone = history.records(c, topic)
    plan = next(one.plan for one in undone if one.cause.startswith("reset offsets"))
    assert plan is not None
    assert plan.undoes == record.rebalance
    eventually(lambda: all_stable(c, [topic]))


def test_a_file_for_other_partitions_fails_with_one_line_and_changes_nothing(
    airflow: EmbeddedAirflow, c: Coordinator, topic: str
) -> None:
    before = c.zk.get(c.paths.topic(topic))
    run = airflow.client.trigger("import_offsets", {"offsets": f"{topic},7,1", "why": "x", "dry_run": False})
    assert wait_for_run(airflow.client, "import_offsets", run, RUN_LIMIT_S) == "failed"
    assert "has partitions 0 to 1; name some of these" in whole_log(airflow, "import_offsets", run)
    assert c.zk.get(c.paths.topic(topic)) == before
    assert "KPC-010" in whole_log(airflow, "import_offsets", run)
    assert "import_offsets has failed" in page(airflow, "import_offsets", run)


def page(airflow: EmbeddedAirflow, form: str, run: str) -> str:
    """The tab of a run, as a signed-in person sees it."""
    airflow.client.dag_ids()  # signs in
    answer = airflow.client._http.get(f"/coordinator/runs/{form}/{quote(run)}")
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_fleet_is_set_and_scaled_and_the_tab_says_whether_it_was_a_dry_run(
    airflow: EmbeddedAirflow, c: Coordinator, topic: str
) -> None:
    assert topic
    told = {"app": "sales", "application": OWN_APPLICATIONS[0], "consumers": ["a", "s-1"], "environment": {"TZ": "UTC"}}
    told |= {"code": "1.4", "arguments": [], "conf": {}}
    assert asked(airflow, "set_fleet", dry_run=True, **told) == ("success", ["sales is new"])
    assert fleet.fleets(c) == ()
    assert asked(airflow, "set_fleet", dry_run=False, **told)[0] == "success"
    (found,) = fleet.fleets(c)
    assert (found.consumers, found.environment, found.code) == (("a", "s-1"), {"TZ": "UTC"}, "1.4")

    wanted = {"app": "sales", "count": 1, "pattern": "", "why": "night"}
    for dry_run, title in ((True, "Dry run: nothing was changed"), (False, "scale is done")):
        run = airflow.client.trigger("scale", {**wanted, "dry_run": dry_run})
        assert wait_for_run(airflow.client, "scale", run, RUN_LIMIT_S) == "success"
        html = page(airflow, "scale", run)
        assert title in html
        assert "sales should have 1 consumer: a" in html
        assert (len(fleet.fleets(c)[0].consumers) == 1) == (not dry_run)
    scaled, set_up = recorded.asked(c, "sales")
    assert [one.action for one in (scaled, set_up)] == ["scale", "set_fleet"]
    assert (scaled.actor.kind, scaled.actor.who, scaled.actor.dag, scaled.why) == ("airflow", "admin", "scale", "night")
    run = airflow.client.trigger("redeploy", {"app": "sales", "why": "", "dry_run": False})
    assert wait_for_run(airflow.client, "redeploy", run, RUN_LIMIT_S) == "failed"
    assert "KPC-019: a is the only live consumer of the fleet" in whole_log(airflow, "redeploy", run)


def test_who_was_drained_returns_by_a_form(airflow: EmbeddedAirflow, c: Coordinator, topic: str) -> None:
    assert topic
    directives.drain(c, "a", by="ada", why="new disk")
    shown = ["a may get partitions again", "a returns to the fleet sales"]
    assert asked(airflow, "undrain", dry_run=True, consumer="a", app="sales") == ("success", shown)
    assert directives.read_directive(c, "a").draining is not None
    assert asked(airflow, "undrain", dry_run=False, consumer="a", app="sales") == ("success", shown)
    assert directives.read_directive(c, "a").draining is None
    assert fleet.fleet_of(c, "sales").consumers == ("a",)
