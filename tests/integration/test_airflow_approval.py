"""Real Airflow asks a person about a plan that exceeds the budget; repair does not wait for the answer."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.budget import Budget
from coordinator_tasks.core.model import Actor
from coordinator_tasks.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service import approving, asked, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import FINAL_STATES, wait_for_run
from tests.integration.airflow_site import airflow_of, all_stable, cluster_of, eventually
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PERSON = Actor("command", "ada")
RUN_LIMIT_S = 180.0
DAGS = {"rebalance", "reconcile", "approve_plan"}


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return replace(cluster_of(zookeeper, kafka), budget=Budget(moves=1, approvers=("admin",)))


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    env = {"COORDINATOR_BUDGET_MOVES": "1", "COORDINATOR_BUDGET_APPROVERS": "admin"}
    with airflow_of(settings, airflow_factory, DAGS, env=env) as server:
        yield server


@pytest.fixture(scope="module")
def coordinator(settings: Settings) -> Iterator[Coordinator]:
    with open_coordinator(settings) as coordinator:
        yield coordinator


def questions(airflow: EmbeddedAirflow) -> dict[str, str]:
    """Digest → the run whose question waits for an answer."""
    airflow.client.trigger("reconcile")
    found = {}
    for run in airflow.client.dag_runs("approve_plan"):
        states = {
            one["task_id"]: one["state"] for one in airflow.client.task_instances("approve_plan", run["dag_run_id"])
        }
        if states.get("ask") in ("awaiting_input", "deferred"):
            found[run["conf"]["digest"]] = run["dag_run_id"]
    return found


def details(airflow: EmbeddedAirflow, run_id: str) -> str:
    return f"/dags/approve_plan/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"


def test_a_plan_above_the_budget_is_done_once_a_person_has_approved_exactly_it(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings
) -> None:
    topic = f"t{uuid.uuid4().hex[:6]}"
    ConfluentKafkaAdmin(settings.kafka).create_topic(topic, 12)
    topics.add_topic(coordinator, topic, f"g-{topic}", actor=PERSON)
    with StubConsumer(settings, "a") as first, StubConsumer(settings, "b") as second:
        eventually(lambda: all_stable(coordinator, [topic]))
        assert len(first.running(topic)) + len(second.running(topic)) == 12, (
            "the first plan gives nobody's partitions away"
        )
        eventually(lambda: len(second.running(topic)) == 6 or _rejoined(airflow, coordinator, topic))
        with StubConsumer(settings, "c") as third:
            plan = eventually(lambda: _plan(coordinator, topic, "c"))
            run_id = eventually(lambda: questions(airflow).get(plan))
            shown: dict[str, Any] = airflow.client.request("GET", details(airflow, run_id))
            assert shown["subject"] == f"{topic}: a plan waits for approval"
            assert "4 partitions would move" in shown["body"]
            assert plan in shown["body"]
            assert [one["id"] for one in shown["assigned_users"]] == ["admin"]
            assert third.running(topic) == first.running(topic) - first.running(topic)
            eventually(lambda: _approved(airflow, run_id))
            assert wait_for_run(airflow.client, "approve_plan", run_id, RUN_LIMIT_S) == "success"
            eventually(lambda: [len(one.running(topic)) for one in (first, second, third)] == [4, 4, 4])
            (record, *_) = asked.asked(coordinator, topic, 1)
            assert (record.action, record.actor.dag, record.actor.who) == ("approve", "approve_plan", "admin")


def _approved(airflow: EmbeddedAirflow, run_id: str) -> bool:
    """Answer while the question is open; a task that Airflow starts again on a busy machine asks anew."""
    answered = airflow.client.request("GET", details(airflow, run_id))["response_received"]
    if not answered:
        answer = {"chosen_options": ["Approve"], "params_input": {}}
        airflow.client.request("PATCH", details(airflow, run_id), json=answer)
    return airflow.client.run_state("approve_plan", run_id) in FINAL_STATES


def _plan(c: Coordinator, topic: str, joined: str) -> str:
    found = approving.waiting(c, [topic]).get(topic)
    return found.digest if found is not None and f"joined: {joined}" in found.why else ""


def _rejoined(airflow: EmbeddedAirflow, c: Coordinator, topic: str) -> bool:
    """Where the second consumer came after the first plan, its share waits for approval as well."""
    found = approving.waiting(c, [topic]).get(topic)
    if found is None or found.answered:
        return False
    approving.answer(c, topic, found.digest, granted=True, by=["admin"], why="the beginning")
    return False
