"""Airflow on Celery with two schedulers, triggerers and workers: one of each dies in the middle of a rebalance."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.model import Fleet, MoveKind, State
from coordinator_tasks.devstack.embedded.airflow import Service
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.nodes.observe import load_claims
from coordinator_tasks.wiring import open_coordinator
from spark_apps.plain import Sink
from tests.clusters.celery_airflow import CeleryAirflow, celery_airflow
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.airflow_site import connections_of, eventually, idle
from tests.integration.real_site import Consumer, Ledger, Managed
from tests.integration.test_airflow_consumers import STUB

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]
ALL = range(4)
LIMIT_S = 240.0
JOIN = [(State.STABLE, State.CLOSING), (State.CLOSING, State.STARTING), (State.STARTING, State.STABLE)]
Figure = Callable[[str, object], None]


class GatedLedger(Ledger):
    """A sink that takes nothing while `shut` is set: its consumer cannot end a batch, so a hand-off stays under way."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()

    def sink(self, consumer: Consumer) -> Sink:
        take = super().sink(consumer)

        def gated(topic: str, records: Any) -> None:
            self.open.wait(LIMIT_S)
            take(topic, records)

        return gated


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, len(ALL)))
    made.ledger = GatedLedger()
    yield made
    made.close()


@pytest.fixture
def site(managed: Managed, tmp_path: Path) -> Iterator[CeleryAirflow]:
    environment = {
        "COORDINATOR_CLUSTERS": managed.site.cluster,
        "COORDINATOR_RUN_BASE": str(tmp_path / "consumers"),
        "COORDINATOR_ALLOWED_APPLICATIONS": str(STUB),
    }
    connections = connections_of(managed.site.settings)
    dags = {"rebalance", "consumers", "reconcile"}
    with celery_airflow(tmp_path / "airflow", env=environment, dags=dags, connections=connections) as running:
        yield running


def joined(managed: Managed) -> None:
    """One plan, by hand-offs to b, and no step twice."""
    steps = [(one.source, one.target) for one in managed.history() if one.source is not one.target]
    assert steps[-3:] == JOIN
    assert len(steps) == 5
    moves = [move for record in managed.history() for move in record.moves if move.kind is MoveKind.HANDOFF]
    assert {(move.giver, move.taker) for move in moves} == {("a", "b")}
    assert len(moves) == len(ALL) // 2


def test_one_scheduler_triggerer_and_worker_die_in_the_middle_of_a_rebalance(
    managed: Managed, site: CeleryAirflow, tmp_path: Path, record_property: Figure
) -> None:
    gate = managed.ledger
    assert isinstance(gate, GatedLedger)
    managed.join("a")
    managed.stable("a", LIMIT_S)
    traffic = Traffic(managed.site)
    managed.ledger.grown(ALL, "records flow")
    gate.open.clear()
    managed.join("b")
    wait_for(lambda: managed.state() is State.CLOSING, "the hand-off is under way", LIMIT_S)
    with open_coordinator(replace(managed.site.settings, allowed=AllowedLaunches(applications=str(STUB)))) as c:
        stub = Fleet("light", str(STUB), ("s1",), ("--topics", "none"), {"spark.ui.enabled": "false"})
        fleet.set_fleet(c, stub)
        eventually(lambda: waiting(site, "consumers"), LIMIT_S)
        for process in (site.of(Service.SCHEDULER)[0], site.of(Service.TRIGGERER)[0], site.workers[0]):
            process.kill()
        gate.open.set()
        record_property("stable_s", round(wait_for(lambda: managed.stable("ab", LIMIT_S), "Stable"), 1))
        managed.ledger.grown(ALL, "records flow again")
        sent = traffic.close()
        managed.consumed(sent)
        wait_for(lambda: c.discovery.members().get("s1"), "the launched one registers", LIMIT_S)
        wait_for(lambda: idle(site.airflow) and not under_way(site, "consumers"), "all runs end", LIMIT_S)
        assert len(load_claims(c, ["s1"], {})["s1"].registrations) == 1
    assert len(drivers(tmp_path)) == 1, "launched once"
    managed.judge(sent)
    joined(managed)


def under_way(site: CeleryAirflow, dag: str) -> list[str]:
    """The runs that have not ended."""
    return [one["dag_run_id"] for one in site.airflow.client.dag_runs(dag) if one["state"] not in ("success", "failed")]


def waiting(site: CeleryAirflow, dag: str) -> bool:
    """Whether a task of the DAG runs or waits in a triggerer."""
    tasks = [one for run in under_way(site, dag) for one in site.airflow.client.task_instances(dag, run)]
    return any(one["task_id"] == "launch" and one["state"] in ("running", "deferred") for one in tasks)


def drivers(folder: Path) -> list[psutil.Process]:
    """The processes of the launched consumer, without its launcher and Spark's JVM."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        program, *arguments = process.info["cmdline"] or [""]
        ours = "python" in program and str(STUB) in arguments and any(str(folder) in one for one in arguments)
        if ours and "spark_apps.launch.launcher" not in arguments:
            found.append(process)
    return found
