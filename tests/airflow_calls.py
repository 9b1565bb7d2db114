"""Calls of Airflow's public API that tests and benchmarks need beside those of the demo."""

import time
from typing import Any

from coordinator_tasks.devstack.embedded.airflow_client import AirflowClient
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable

POLL_S = 0.2
FINAL_STATES = frozenset({"success", "failed"})
NO_TRY = "TaskInstance not found"


def wait_for_run(client: AirflowClient, dag_id: str, run_id: str, timeout_s: float) -> str:
    """The run's final state, `success` or `failed`; `AirflowUnavailable` if it has none after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while (state := client.run_state(dag_id, run_id)) not in FINAL_STATES:
        if time.monotonic() > deadline_s:
            raise AirflowUnavailable(
                f"run {run_id} of {dag_id} is still {state} after {timeout_s:g} s: "
                f"see {client.base_url}/dags/{dag_id}/runs/{run_id}"
            )
        time.sleep(POLL_S)
    return state


def clear_tasks(client: AirflowClient, dag_id: str, run_id: str, task_ids: list[str]) -> None:
    """Run tasks again, in any state, as a person does in the UI."""
    body = {"dag_run_id": run_id, "task_ids": task_ids, "only_failed": False, "dry_run": False}
    client.request("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)


def xcom(
    client: AirflowClient, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1
) -> Any:
    """The value that a task stored under `key`."""
    path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
    return client.request("GET", path, params={"map_index": map_index, "deserialize": True})["value"]


def task_log(client: AirflowClient, dag_id: str, run_id: str, task_id: str) -> str:
    """The logs of all tries of a task, and of all its mapped instances, as text; empty if it was never tried."""
    return "\n".join(
        _log(client, f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt + 1}", one["map_index"])
        for one in client.task_instances(dag_id, run_id)
        if one["task_id"] == task_id
        for attempt in range(one["try_number"])
    )


def _log(client: AirflowClient, path: str, map_index: int) -> str:
    """Empty where there is none: Airflow counts a try that no worker has taken."""
    try:
        content = client.request("GET", path, params={"map_index": map_index, "full_content": True})["content"]
    except AirflowUnavailable as error:
        if NO_TRY not in str(error):
            raise
        return ""
    return "\n".join(line if isinstance(line, str) else str(line.get("event", line)) for line in content)
