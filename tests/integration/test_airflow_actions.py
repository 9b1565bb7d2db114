"""The forms of actions in a real Airflow: a dry run first, then the effect, and what the history keeps of it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.core.model import Actor, Committed
from coordinator_tasks.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service import history, store, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.integration.airflow_site import airflow_of, all_stable, cluster_of, eventually
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
RUN_LIMIT_S = 180.0
TOPIC, GROUP = "orders", "billing"
FORMS = {"rebalance", "reconcile", "reset_offsets", "import_offsets", "undo_offsets"}


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
    state = airflow.client.wait_for_run(form, run, RUN_LIMIT_S)
    return state, airflow.client.xcom(form, run, form)


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
    assert airflow.client.wait_for_run("import_offsets", run, RUN_LIMIT_S) == "failed"
    assert "has partitions 0 to 1; name some of these" in whole_log(airflow, "import_offsets", run)
    assert c.zk.get(c.paths.topic(topic)) == before
