"""A DAG whose runs miss their deadline; only for the tests of the embedded Airflow."""

import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, get_current_context, task
from coordinator_plugin import dagparts
from coordinator_plugin.clusters import clusters

LIMIT_S = 60.0
dagparts.DEADLINE = timedelta(seconds=1)

with DAG("late", schedule=None, deadline=dagparts.deadline(clusters()[0])):

    @task
    def wait() -> None:
        """Until the file is there that the run names."""
        run = get_current_context()["dag_run"]
        file, until = Path((run.conf or {})["until"]), time.monotonic() + LIMIT_S
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)

    wait()
