"""The embedded Airflow runs real tasks, and its services can be killed and started again one by one."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow, Service
from tests.airflow_calls import wait_for_run
from tests.integration.airflow_site import ROOT, eventually
from tests.receiver import Receiver

pytestmark = [pytest.mark.integration, pytest.mark.clusters]

DAGS = Path(__file__).parent / "airflow_dags"
RUN_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(DAGS, tmp_path_factory.mktemp("dags") / "dags")


@pytest.fixture(scope="module")
def airflow(
    airflow_factory: Callable[..., EmbeddedAirflow], dags_folder: Path, receiver: Receiver
) -> Iterator[EmbeddedAirflow]:
    server = airflow_factory(
        dags_folder,
        ROOT / "plugins",
        connections={
            "example": {"conn_type": "generic", "host": "example.invalid"},
            "chat": {"conn_type": "http", "host": receiver.address},
            "zookeeper_default": {"conn_type": "generic", "host": "127.0.0.1:1"},
            "kafka_default": {"conn_type": "kafka", "host": "127.0.0.1:1"},
        },
        env={"COORDINATOR_NOTIFY_CONN_ID": "chat"},
        settings={"dag_processor.refresh_interval": "1"},
        expected_dags={"trivial", "late"},
    )
    yield server
    server.kill()


def run(airflow: EmbeddedAirflow, conf: dict[str, object]) -> str:
    run_id = airflow.client.trigger("trivial", conf)
    assert wait_for_run(airflow.client, "trivial", run_id, RUN_TIMEOUT_S) == "success"
    return run_id


def test_a_run_that_misses_its_deadline_tells_the_receiver_what_is_wrong(
    airflow: EmbeddedAirflow, receiver: Receiver, tmp_path: Path
) -> None:
    run_id = airflow.client.trigger("late", {"until": str(tmp_path / "end")})
    (_, text), *_ = eventually(lambda: receiver.posts)
    (tmp_path / "end").touch()
    assert text.startswith(f"run {run_id} of late has not ended within its deadline: ")
    assert "the coordinator cannot read its topics: " in text
    assert wait_for_run(airflow.client, "late", run_id, RUN_TIMEOUT_S) == "success"


def test_requests_at_once_do_not_wait_for_one_another_for_ever(airflow: EmbeddedAirflow) -> None:
    log = airflow.home / f"{Service.API_SERVER}.log"
    failed = log.read_text().count("Error with id")
    runs: list[str] = []

    def trigger() -> None:
        runs.extend(airflow.client.trigger("trivial", {"number": number}) for number in range(6))

    triggering = threading.Thread(target=trigger)
    triggering.start()
    with ThreadPoolExecutor(2) as others:
        while triggering.is_alive():
            list(others.map(airflow.client.set_paused, ["trivial"] * 2, [False] * 2))
    assert log.read_text().count("Error with id") == failed
    states = [wait_for_run(airflow.client, "trivial", run_id, RUN_TIMEOUT_S) for run_id in runs]
    assert states == ["success"] * 6
