"""Real Airflow runs the transitions: many topics in one run, runs at once, tasks again, a person asked."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.model import Actor, State
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history, topics
from coordinator_tasks.settings import Settings
from tests.airflow_calls import clear_tasks, task_log, wait_for_run
from tests.integration.airflow_site import airflow_of, all_stable, eventually, idle, state_of
from tests.integration.stub_consumer import StubConsumer
from tests.receiver import Receiver
from tests.statsd_server import StatsdServer

pytestmark = [pytest.mark.integration, pytest.mark.promise, pytest.mark.timeout(600)]

PERSON = Actor("command", "ada")
TASKS = ["plan", "confirm_closed", "start", "confirm_started", "settle", "further_run"]
RUN_LIMIT_S = 180.0
STUCK_AFTER_S = 6
PASSWORD = "pager-key"
STEP_S = 0.25
"""Of the consumers: each look reads the nodes of all topics."""


@pytest.fixture(scope="module")
def statsd() -> Iterator[StatsdServer]:
    made = StatsdServer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def airflow(
    settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow], receiver: Receiver, statsd: StatsdServer
) -> Iterator[EmbeddedAirflow]:
    policy = {"policy": {"stuck_after_s": STUCK_AFTER_S}}
    dags = {"rebalance", "reconcile", "stuck_topic", "isolate"}
    chat = json.dumps({"conn_type": "http", "host": receiver.address, "password": PASSWORD})
    told = {"COORDINATOR_NOTIFY_CONN_ID": "chat", "AIRFLOW_CONN_CHAT": chat}
    metrics = {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port)}
    with airflow_of(settings, airflow_factory, dags, zookeeper=policy, env={**told, **metrics}) as server:
        yield server


@pytest.fixture(scope="module")
def consumers(settings: Settings, airflow: EmbeddedAirflow) -> Iterator[list[StubConsumer]]:
    assert airflow.base_url
    stubs = [StubConsumer(settings, name, step_s=STEP_S).start() for name in ("a", "b")]
    yield stubs
    for stub in stubs:
        stub.stop()


def make_topics(c: Coordinator, settings: Settings, count: int, partitions: int = 4) -> list[str]:
    admin = ConfluentKafkaAdmin(settings.kafka)
    prefix = uuid.uuid4().hex[:6]
    names = [f"{prefix}-{number:02d}" for number in range(count)]
    for name in names:
        admin.create_topic(name, partitions)
        topics.add_topic(c, name, f"g-{name}", actor=PERSON)
    return names


@contextmanager
def no_rebalance(airflow: EmbeddedAirflow) -> Iterator[None]:
    """No run of `rebalance` is under way, and none begins: a task that was queued before a pause still plans."""

    def paused() -> bool:
        eventually(lambda: idle(airflow))
        airflow.client.set_paused("rebalance", True)
        if not idle(airflow):
            airflow.client.set_paused("rebalance", False)
            return False
        return True

    eventually(paused)
    try:
        yield
    finally:
        airflow.client.set_paused("rebalance", False)


def test_one_run_brings_fifty_topics_to_stable_and_a_second_one_at_the_same_time_has_no_effect(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, consumers: list[StubConsumer]
) -> None:
    airflow.client.set_paused("rebalance", True)
    names = make_topics(coordinator, settings, 50)
    runs = [airflow.client.trigger("rebalance"), airflow.client.trigger("rebalance")]
    airflow.client.set_paused("rebalance", False)
    assert [wait_for_run(airflow.client, "rebalance", run, RUN_LIMIT_S) for run in runs] == ["success", "success"]
    assert all_stable(coordinator, names)
    for name in names:
        records = history.records(coordinator, name)
        assert [(one.source, one.target) for one in records] == [
            (State.STARTING, State.STABLE),
            (State.INITIAL, State.STARTING),
        ]
        assert all(one.actor.kind == "airflow" and one.actor.dag == "rebalance" for one in records)
        assert {one.actor.task for one in records} == {"plan", "settle"}
    held = [len(stub.running(name)) for stub in consumers for name in names]
    assert sum(held) == 200


def test_a_join_moves_by_hand_offs_and_every_task_may_be_run_again_without_effect(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, consumers: list[StubConsumer]
) -> None:
    assert consumers
    (topic,) = make_topics(coordinator, settings, 1, partitions=12)
    eventually(lambda: all_stable(coordinator, [topic]) and idle(airflow))
    with StubConsumer(settings, "c", step_s=STEP_S):
        eventually(lambda: state_of(coordinator, topic) is not State.STABLE)
        eventually(lambda: all_stable(coordinator, [topic]))
        settled, started, planned, *_ = history.records(coordinator, topic)
        assert planned.plan is not None
        assert planned.cause.startswith("joined")
        assert [one.actor.task for one in (planned, started, settled)] == ["plan", "start", "settle"]
        eventually(lambda: idle(airflow))
        # Two runs may share the steps, each of which only one of them takes.
        run_id = planned.actor.run
        states = {one["task_id"]: one["state"] for one in airflow.client.task_instances("rebalance", run_id)}
        assert states.keys() == set(TASKS)
        assert set(states.values()) <= {"success", "skipped"}
        paths = [coordinator.paths.topic(topic), coordinator.paths.state(topic)]
        before = coordinator.zk.get_many(paths)
        clear_tasks(airflow.client, "rebalance", run_id, TASKS)
        assert wait_for_run(airflow.client, "rebalance", run_id, RUN_LIMIT_S) == "success"
        assert coordinator.zk.get_many(paths) == before
        log = task_log(airflow.client, "rebalance", run_id, "plan")
        assert "by hand-off" in log
        airflow.client.set_paused("reconcile", True)
    # Nobody reports c's end, and no event tells when its address has refused for long enough: the runs look again.
    eventually(lambda: len(consumers[0].running(topic)) == 6)
    airflow.client.set_paused("reconcile", False)


def test_the_sites_statsd_is_told_of_moves_and_of_partitions_without_an_owner(
    airflow: EmbeddedAirflow,
    coordinator: Coordinator,
    settings: Settings,
    consumers: list[StubConsumer],
    statsd: StatsdServer,
) -> None:
    assert consumers

    def sent(name: str) -> list[str]:
        return statsd.sent.get(f"airflow.coordinator.{name}", [])

    with no_rebalance(airflow):
        (topic,) = make_topics(coordinator, settings, 1)
        of_topic = f"{settings.cluster}.{topic}"
        # Without a logical date it would leave the seconds to the next run of the schedule.
        now = {"logical_date": datetime.now(UTC).isoformat(), "conf": {}}
        run = airflow.client.request("POST", "/dags/reconcile/dagRuns", json=now)["dag_run_id"]
        assert wait_for_run(airflow.client, "reconcile", run, RUN_LIMIT_S) == "success"
        assert eventually(lambda: sent(f"topic.unowned_partitions.{of_topic}"))[-1] == "4|g"
        seconds = eventually(lambda: sent(f"unowned_partition_seconds.{of_topic}"))
        assert all(0 < int(one.removesuffix("|c")) <= 4 * 300 for one in seconds)
        assert sent(f"consumer.incarnation.{settings.cluster}.a")[-1] == f"{consumers[0].incarnation}|g"
    eventually(lambda: all_stable(coordinator, [topic]) and idle(airflow))
    assert sent(f"moves.{of_topic}.start") == ["4|c"]
    assert sent(f"rebalances.{of_topic}") == ["1|c"]


def test_a_topic_that_is_held_up_asks_a_person_once_and_the_answer_isolates_the_blocker(
    airflow: EmbeddedAirflow,
    coordinator: Coordinator,
    settings: Settings,
    consumers: list[StubConsumer],
    receiver: Receiver,
) -> None:
    (topic,) = make_topics(coordinator, settings, 1)
    eventually(lambda: all_stable(coordinator, [topic]) and idle(airflow))
    blocker = consumers[1]
    blocker.deaf = True
    other, _ = both = make_topics(coordinator, settings, 2)
    eventually(lambda: {state_of(coordinator, one) for one in both} == {State.STARTING})
    time.sleep(STUCK_AFTER_S + 1)

    def asked() -> dict[str, list[Any]]:
        airflow.client.trigger("reconcile")
        time.sleep(3)
        waiting = [one for one in airflow.client.dag_runs("stuck_topic") if _waits(airflow, one["dag_run_id"])]
        return {topic: [one for one in waiting if one["conf"]["topic"] == topic] for topic in both}

    runs = eventually(lambda: all((found := asked()).values()) and found, 120)
    assert [len(one) for one in (*asked().values(), *runs.values())] == [1, 1, 1, 1]
    run_id, withdrawn = (runs[topic][0]["dag_run_id"] for topic in both)
    assert runs[other][0]["conf"]["consumer"] == "b"
    for asking in (run_id, withdrawn):  # each question is told once, with everything that is stuck then
        ((key, text),) = eventually(lambda asking=asking: told_by(receiver, asking))
        assert key == f"Bearer {PASSWORD}"
        assert any(line.startswith(f"{other} is stuck in Starting: ") for line in text.splitlines()), text
        assert PASSWORD not in text
    assert PASSWORD not in task_log(airflow.client, "stuck_topic", run_id, "ask")
    path = f"/dags/stuck_topic/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"
    airflow.client.request("PATCH", path, json={"chosen_options": ["isolate"], "params_input": {}})
    assert wait_for_run(airflow.client, "stuck_topic", run_id, RUN_LIMIT_S) == "success"
    isolation = directives.read_directive(coordinator, "b").isolation
    assert isolation is not None
    assert isolation.by == "admin"
    eventually(lambda: all_stable(coordinator, both))
    assert len(consumers[0].running(other)) == 4
    # Nobody answers the question about the further topic, which is stuck no more: it is withdrawn.
    assert wait_for_run(airflow.client, "stuck_topic", withdrawn, RUN_LIMIT_S) == "success"
    states = {one["task_id"]: one["state"] for one in airflow.client.task_instances("stuck_topic", withdrawn)}
    assert states == {"ask": "success", "apply_answer": "skipped"}
    blocker.deaf = False
    directives.readmit(coordinator, "b", PERSON.who)
    eventually(lambda: directives.read_directive(coordinator, "b").isolation is None)


def told_by(receiver: Receiver, run_id: str) -> list[tuple[str, str]]:
    """What the question of this run has posted."""
    first = f"stuck_topic, task ask, run {run_id}:"
    return [(key, text) for key, text in list(receiver.posts) if text.splitlines()[0] == first]


def _waits(airflow: EmbeddedAirflow, run_id: str) -> bool:
    states = {one["task_id"]: one["state"] for one in airflow.client.task_instances("stuck_topic", run_id)}
    return states.get("ask") in ("awaiting_input", "deferred")
