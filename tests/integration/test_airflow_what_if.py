"""The way back and what would happen, on a real Airflow, ZooKeeper and Kafka: by the forms and by the commands."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service import history, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import wait_for_run, xcom
from tests.fakes.cluster import PERSON
from tests.integration.airflow_site import airflow_of, all_stable, cluster_of, eventually
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
LIMIT_S = 180.0
TOPIC = "back-orders"


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return cluster_of(zookeeper, kafka)


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    with airflow_of(settings, airflow_factory, {"rebalance", "roll_back", "preview"}) as server:
        yield server


@pytest.fixture(scope="module")
def coordinator(settings: Settings, airflow: EmbeddedAirflow) -> Iterator[Coordinator]:
    assert airflow.base_url
    ConfluentKafkaAdmin(settings.kafka).create_topic(TOPIC, 6)
    with open_coordinator(settings) as c:
        topics.add_topic(c, TOPIC, "back-group", actor=PERSON)
        yield c


@pytest.fixture(scope="module")
def joined(settings: Settings, coordinator: Coordinator) -> Iterator[str]:
    """`ann` had all, then `bob` joined; the name of that rebalance."""
    with StubConsumer(settings, "ann"):
        eventually(lambda: all_stable(coordinator, [TOPIC]) and counts(coordinator) == {"ann": 6})
        with StubConsumer(settings, "bob"):
            eventually(lambda: all_stable(coordinator, [TOPIC]) and counts(coordinator) == {"ann": 3, "bob": 3})
            yield history.rebalances(coordinator, [TOPIC], 1)[0].rebalance


def counts(c: Coordinator) -> dict[str, int]:
    node = c.zk.find(c.paths.topic(TOPIC))
    owners = list(codec.decode_node("", node.data).assignments.values()) if node is not None and node.data else []
    return {owner: owners.count(owner) for owner in sorted(set(owners))}


def asked(airflow: EmbeddedAirflow, dag: str, form: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The state of the form's only task, and what it says."""
    run = airflow.client.trigger(dag, conf=form)
    wait_for_run(airflow.client, dag, run, LIMIT_S)
    (task,) = airflow.client.task_instances(dag, run)
    said = xcom(airflow.client, dag, run, dag) if task["state"] in ("success", "skipped") else []
    return task["state"], said


def typed(settings: Settings, *arguments: str) -> tuple[int, str, str]:
    """A command as a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "coordinator_tasks", *arguments],
        env={
            **os.environ,
            "COORDINATOR_CLUSTER": settings.cluster,
            "COORDINATOR_ZOOKEEPER": settings.zookeeper,
            "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": settings.kafka["bootstrap.servers"],
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_form_and_command_preview_the_same_and_the_file_replays_it(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, joined: str, tmp_path: Path
) -> None:
    assert joined
    before = coordinator.zk.get(coordinator.paths.topic(TOPIC))
    form = {"cluster": settings.cluster, "topics": [TOPIC], "join": 1}
    state, lines = asked(airflow, "preview", form)
    assert state == "success"
    assert lines[0] == f"{TOPIC}: 2 partitions would move; then ann 2, bob 2, new-1 2"
    assert typed(settings, "preview", TOPIC, "--join", "1") == (0, "\n".join(lines) + "\n", "")
    file = str(tmp_path / "site.json")
    assert typed(settings, "snapshot", file)[0] == 0
    code, out, _ = typed(settings, "simulate", "--from", file, "join=1", "leave=ann")
    assert code == 0
    assert "then ann 2, bob 2, new-1 2" in out
    assert "then bob 3, new-1 3" in out
    code, out, error = typed(settings, "preview", TOPIC, "--leave", "zoe")
    assert (code, out) == (2, "")
    assert error == "error: KPC-010: consumer 'zoe' is not registered (registered: ann, bob); name one of these\n"
    assert coordinator.zk.get(coordinator.paths.topic(TOPIC)) == before


def test_a_roll_back_is_tried_by_the_form_done_by_the_form_and_repeated_by_the_command(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, joined: str
) -> None:
    form = {"cluster": settings.cluster, "topic": TOPIC, "rebalance": joined, "why": "slow since then"}
    state, tried = asked(airflow, "roll_back", {**form, "dry_run": True})
    assert (state, tried[0]) == ("skipped", f"{TOPIC}: 3 partitions would move; then ann 6")
    assert counts(coordinator) == {"ann": 3, "bob": 3}
    state, done = asked(airflow, "roll_back", {**form, "dry_run": False})
    assert (state, done[-1]) == ("success", f"{TOPIC}: the next plan moves them")
    eventually(lambda: all_stable(coordinator, [TOPIC]) and counts(coordinator) == {"ann": 6})
    found = history.rebalances(coordinator, [TOPIC], 1)[0]
    assert found.cause == f"rolled back to before rebalance {joined} (by {airflow.username}: slow since then)"
    assert {(one.giver, one.taker) for one in found.moves} == {("bob", "ann")}
    version = coordinator.zk.get(coordinator.paths.config(TOPIC)).stat.version
    code, out, error = typed(settings, "roll-back", TOPIC, joined, "--why", "again")
    assert (code, error) == (0, "")
    assert out.splitlines()[-1] == f"{TOPIC}: this roll back is in force already, nothing was changed"
    assert coordinator.zk.get(coordinator.paths.config(TOPIC)).stat.version == version
    assert asked(airflow, "roll_back", {**form, "rebalance": "9-0", "dry_run": False})[0] == "failed"
    with StubConsumer(settings, "cy"):
        eventually(lambda: all_stable(coordinator, [TOPIC]) and counts(coordinator) == {"ann": 2, "bob": 2, "cy": 2})
    assert topics.configuration(coordinator, TOPIC).rollback is None
