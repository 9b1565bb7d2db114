"""A run of the embedded Airflow that misses its deadline."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
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
            "chat": {"conn_type": "http", "host": receiver.address},
            "zookeeper_default": {"conn_type": "generic", "host": "127.0.0.1:1"},
            "kafka_default": {"conn_type": "kafka", "host": "127.0.0.1:1"},
        },
        env={"COORDINATOR_NOTIFY_CONN_ID": "chat"},
        settings={"dag_processor.refresh_interval": "1"},
        expected_dags={"late"},
    )
    yield server
    server.kill()


def test_a_run_that_misses_its_deadline_tells_the_receiver_what_is_wrong(
    airflow: EmbeddedAirflow, receiver: Receiver, tmp_path: Path
) -> None:
    run_id = airflow.client.trigger("late", {"until": str(tmp_path / "end")})
    (_, text), *_ = eventually(lambda: receiver.posts)
    (tmp_path / "end").touch()
    assert text.startswith(f"run {run_id} of late has not ended within its deadline: ")
    assert "the coordinator cannot read its topics: " in text
    assert wait_for_run(airflow.client, "late", run_id, RUN_TIMEOUT_S) == "success"
