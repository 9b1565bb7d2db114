"""A local Airflow whose tasks run the transitions of the measured clusters, in place of the plain loop."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.circumstances import PROJECT
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow


def airflow_for(
    folder: Path, clusters: Sequence[str], zookeeper: str, kafka: str, site: Mapping[str, Any]
) -> EmbeddedAirflow:
    """Return an Airflow, not started yet; all clusters are in this ZooKeeper.

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
