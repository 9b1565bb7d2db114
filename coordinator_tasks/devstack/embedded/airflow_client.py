"""A small client of Airflow's public API (v2), for the demo and the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import httpx

from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable

ATTEMPTS = 3
ROLLED_BACK = "Database error"  # part of Airflow's answer after a failed transaction
REQUEST_TIMEOUT_S = 60.0  # SQLite has one writer, so on a busy machine a write waits for the scheduler
WARM_UP_TIMEOUT_S = 90.0
PAGE_SIZE = 100

Json = Any
"""An answer of the API, as Airflow documents it."""


class AirflowClient:
    """Signs in as one user. If Airflow refuses a call, the method raises AirflowUnavailable with Airflow's words."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self.base_url = base_url
        self._credentials = {"username": username, "password": password}
        self._http = self._new_http()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client can be used again."""
        self._http.close()
        self._http = self._new_http()

    def request(self, method: str, path: str, **options: Any) -> Json:
        """Call ``/api/v2`` + ``path``; sign in if needed. Return the decoded answer; None if empty.

        A call that Airflow has rolled back is sent again: SQLite has one writer, and a wait for a turn can time out.
        """
        if "Authorization" not in self._http.headers:
            token = self._send("POST", "/auth/token", json=self._credentials).json()["access_token"]
            self._http.headers["Authorization"] = f"Bearer {token}"
        answer = self._send(method, f"/api/v2{path}", attempts=ATTEMPTS, **options)
        return answer.json() if answer.content else None

    def health(self) -> Json:
        """Return state and last heartbeat of metadatabase, scheduler, dag_processor and triggerer; needs no sign-in."""
        return self._send("GET", "/api/v2/monitor/health").json()

    def warm_up(self) -> None:
        """Make Airflow build the API for tasks, which takes seconds and would otherwise delay the first task."""
        self._send("GET", "/execution/health", timeout=WARM_UP_TIMEOUT_S)

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self._pages("/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Return file name → traceback, for files that cannot be parsed."""
        return {item["filename"]: item["stack_trace"] for item in self._pages("/importErrors", "import_errors")}

    def set_paused(self, dag_id: str, paused: bool) -> None:
        self.request("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def trigger(self, dag_id: str, conf: Mapping[str, Json] | None = None) -> str:
        body: dict[str, Json] = {"logical_date": None, "conf": dict(conf or {})}
        started: str = self.request("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"]
        return started

    def dag_runs(self, dag_id: str) -> list[Json]:
        return list(self._pages(f"/dags/{dag_id}/dagRuns", "dag_runs"))

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return ``queued``, ``running``, ``success`` or ``failed``."""
        state: str = self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
        return state

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """Return the task instances: ``task_id``, ``map_index``, ``try_number``, ``state``, ``start_date``, ..."""
        return list(self._pages(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances"))

    def _new_http(self) -> httpx.Client:
        return httpx.Client(base_url=self.base_url, timeout=REQUEST_TIMEOUT_S, trust_env=False)

    def _pages(self, path: str, key: str) -> Iterator[Json]:
        offset = 0
        while True:
            page = self.request("GET", path, params={"limit": PAGE_SIZE, "offset": offset})
            yield from page[key]
            offset += PAGE_SIZE
            if offset >= page["total_entries"]:
                return

    def _send(self, method: str, path: str, attempts: int = 1, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise AirflowUnavailable(
                f"Airflow at {self.base_url} did not answer {method} {path} ({error}): check that it runs, and try again"
            ) from error
        if attempts > 1 and answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and ROLLED_BACK in answer.text:
            return self._send(method, path, attempts - 1, **options)
        if answer.is_error:
            raise AirflowUnavailable(
                f"Airflow refused {method} {path} with status {answer.status_code}: {answer.text.strip()[:500]}"
            )
        return answer
