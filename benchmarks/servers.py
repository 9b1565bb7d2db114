"""What benchmarks share on real servers: one ZooKeeper and one broker for the duration of a block, Airflow, and waits."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.circumstances import PROJECT
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper

LIMIT_S = 120.0


class Servers(NamedTuple):
    """Addresses, and a temporary folder for the benchmark."""

    folder: Path
    zookeeper: str
    kafka: str


@contextmanager
def served(name: str) -> Iterator[Servers]:
    """Yield separate servers for this benchmark; `name` begins the name of their folder."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(folder / "zookeeper")).connect_string
        yield Servers(folder, zookeeper, stack.enter_context(EmbeddedKafka(folder / "kafka")).bootstrap_servers)


def airflow_for(
    folder: Path, clusters: Sequence[str], zookeeper: str, kafka: str, site: Mapping[str, Any]
) -> EmbeddedAirflow:
    """Return an Airflow, not started yet, whose tasks run the transitions; all clusters are in this ZooKeeper.

    `site`: the coordinator's settings in the extra of ZooKeeper's connection.
    """
    files = folder / "dags"
    shutil.copytree(PROJECT / "dags", files, ignore=shutil.ignore_patterns("__pycache__"))
    return EmbeddedAirflow(
        folder / "airflow",
        files,
        PROJECT / "plugins",
        env={"COORDINATOR_CLUSTERS": ",".join(clusters)},
        connections={
            "zookeeper_default": {"conn_type": "generic", "host": zookeeper, "extra": json.dumps(site)},
            "kafka_default": {"conn_type": "generic", "extra": json.dumps({"bootstrap.servers": kafka})},
        },
        expected_dags=("rebalance", "reconcile"),
    )


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until `holds` returns True. Raises `TimeoutError` after `LIMIT_S`."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {LIMIT_S:g} s; the machine may be too busy to measure on")
        time.sleep(0.05)
