"""Consumers launched by Airflow live without it: launch, kill of Airflow, kill -9 of a consumer, a second launch."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.model import Ending, Fleet, Member
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.nodes.observe import load_claims
from coordinator_tasks.settings import Settings
from tests.airflow_calls import clear_tasks, wait_for_run
from tests.integration.airflow_site import airflow_of, cluster_of, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

STUB = Path(__file__).with_name("stub_consumer.py")
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return cluster_of(zookeeper, kafka, allowed=AllowedLaunches(applications=str(STUB)))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("consumers")


@pytest.fixture(scope="module")
def airflow(
    settings: Settings, base: Path, airflow_factory: Callable[..., EmbeddedAirflow]
) -> Iterator[EmbeddedAirflow]:
    secret = {"sasl.password": "not-to-be-seen"}
    with airflow_of(settings, airflow_factory, {"consumers", "reconcile"}, kafka=secret, base=base) as server:
        yield server


def driver(base: Path) -> psutil.Process:
    """The consumer's own process."""
    for process in psutil.process_iter():
        try:
            program, *arguments = process.cmdline() or [""]
        except psutil.Error:
            continue
        if "spark_apps.launch.launcher" in arguments or not any(str(base) in one for one in arguments):
            continue
        if "python" in program and str(STUB) in arguments:
            return process
    raise AssertionError("no consumer is there")


def launch_runs(airflow: EmbeddedAirflow) -> int:
    return sum(
        (one["state"], one["pool"]) == ("success", "consumers") and one["map_index"] >= 0
        for run in airflow.client.dag_runs("consumers")
        for one in airflow.client.task_instances("consumers", run["dag_run_id"])
    )


def test_a_consumer_is_launched_outlives_airflow_and_is_launched_again_only_when_it_is_gone(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, base: Path
) -> None:
    fleet.set_fleet(coordinator, Fleet("light", str(STUB), ("s1",), conf={"spark.ui.enabled": "false"}))
    member = eventually(lambda: coordinator.discovery.members().get("s1"))
    first = driver(base)
    folder = RunFolder.of(base, settings.cluster, "s1")

    # Secrets are in files of the owner only, and neither among the arguments nor in the environment.
    assert json.loads(folder.kafka.read_text())["sasl.password"] == "not-to-be-seen"
    assert {path.stat().st_mode & 0o077 for path in (folder.kafka, folder.settings, folder.log)} == {0}
    for process in (first, *first.parents()[:2]):
        assert "not-to-be-seen" not in json.dumps([process.cmdline(), process.environ()])

    # A second launch of a live id ends without effect.
    eventually(lambda: launch_runs(airflow) == 1)
    run = next(r for r in airflow.client.dag_runs("consumers") if _launched(airflow, r["dag_run_id"]))
    clear_tasks(airflow.client, "consumers", run["dag_run_id"], ["launch"])
    assert wait_for_run(airflow.client, "consumers", run["dag_run_id"], LIMIT_S) == "success"
    assert coordinator.discovery.members()["s1"] == member

    # Airflow is killed and started again: the same process, the same registration.
    airflow.kill()
    time.sleep(1)
    assert first.is_running()
    airflow.start()
    assert driver(base).pid == first.pid
    assert coordinator.discovery.members()["s1"] == member

    # kill -9: known at once from its launcher, and launched again as another incarnation.
    os.kill(first.pid, signal.SIGKILL)
    eventually(
        lambda: load_claims(coordinator, ["s1"], {})["s1"].ended.get(member.incarnation) is Ending.REAPED, LIMIT_S
    )
    # The dead process's registration stands until its session has ended.
    again = eventually(lambda: _other(coordinator.discovery.members().get("s1"), member))
    assert again.incarnation > member.incarnation

    # SIGTERM to its launcher is a clean leave.
    fleet.set_fleet(coordinator, Fleet("light", str(STUB), ()))
    os.kill(int(folder.lock.read_text()), signal.SIGTERM)
    eventually(lambda: folder.exit_code() is not None)
    assert "s1" not in coordinator.discovery.members()


def _other(found: Member | None, before: Member) -> Member | None:
    return found if found and found.incarnation != before.incarnation else None


def _launched(airflow: EmbeddedAirflow, run_id: str) -> bool:
    return any(one["map_index"] >= 0 for one in airflow.client.task_instances("consumers", run_id))


def test_a_fleet_whose_launch_fails_again_and_again_delays_no_other_one(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, base: Path
) -> None:
    """The healthy one starts while the launch of the other one is still tried."""

    def run_of(app: str) -> str:
        """The state of the first run of a fleet."""
        ours = [one for one in airflow.client.dag_runs("consumers") if f"__{app}__" in one["dag_run_id"]]
        return str(min(ours, key=lambda one: str(one["dag_run_id"]))["state"]) if ours else ""

    fleet.set_fleet(coordinator, Fleet("broken", str(STUB), ("x1",), arguments=("--no-such-option",)))
    eventually(lambda: run_of("broken") == "running")
    began = time.monotonic()
    fleet.set_fleet(coordinator, Fleet("quick", str(STUB), ("q1",), conf={"spark.ui.enabled": "false"}))
    eventually(lambda: coordinator.discovery.members().get("q1"))
    print(f"\nthe healthy fleet was there after {time.monotonic() - began:.1f} s")
    assert run_of("broken") == "running"
    for app in ("broken", "quick"):
        fleet.set_fleet(coordinator, Fleet(app, str(STUB), ()))
    os.kill(int(RunFolder.of(base, settings.cluster, "q1").lock.read_text()), signal.SIGTERM)
    eventually(lambda: "q1" not in coordinator.discovery.members())
