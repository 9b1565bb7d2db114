"""`airflow standalone` of a clean environment, with what a person does to it by the API."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.embedded.airflow_client import AirflowClient
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from tests.airflow_calls import task_log, wait_for_run
from tests.clusters.environments import Environment

READY_LIMIT_S = 900.0  # six processes that import Airflow at once, on a machine that others use
RUN_LIMIT_S = 240.0
USER, PASSWORD = "admin", "password-of-the-admin"
BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "coordinator", "classpath": "coordinator_plugin.bundle.CoordinatorDagBundle", "kwargs": {}},
]
"""Airflow's own one, and ours beside it."""


class StandaloneAirflow(ManagedProcess):
    """All services in one process tree; `options` are `section.option` → value of its configuration.

    `shell`: the environment of the shell that starts it, which wins.
    """

    def __init__(
        self,
        environment: Environment,
        home: Path,
        *,
        options: Mapping[str, str] | None = None,
        shell: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.environment, self.home, self.port = environment, home, port or free_port()
        (home / "dags").mkdir(parents=True, exist_ok=True)
        self.base_url, self.username, self.password = f"http://{HOST}:{self.port}", USER, PASSWORD
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({USER: PASSWORD}))
        own = {
            "api.host": HOST,
            "api.port": str(self.port),
            "api.base_url": self.base_url,
            "core.execution_api_server_url": f"{self.base_url}/execution/",
            "core.simple_auth_manager_users": f"{USER}:admin",
            "core.simple_auth_manager_passwords_file": str(passwords),
            "core.load_examples": "False",
            "core.test_connection": "Enabled",
            "core.hostname_callable": "socket.gethostname",
            "workers.execution_api_timeout": "60",
            "logging.worker_log_server_port": str(free_port()),
            "logging.trigger_log_server_port": str(free_port()),
            "triggerer.job_heartbeat_sec": "2",
            **(options or {}),
        }
        variables = {f"AIRFLOW__{name.upper().replace('.', '__')}": value for name, value in own.items()}
        self.variables = {"AIRFLOW_HOME": str(home), **variables}
        self.client = AirflowClient(self.base_url, USER, PASSWORD)
        super().__init__(
            ProcessSpec(
                "airflow standalone",
                (environment.program("airflow"), "standalone"),
                home / "standalone.log",
                env={**environment.environ(**self.variables), "PYTHONPATH": "", **(shell or {})},
                cwd=home,
                ready_timeout_s=READY_LIMIT_S,
            ),
            ready=self._healthy,
        )

    def _healthy(self) -> bool:
        try:
            health = self.client.health()
        except AirflowUnavailable:
            return False
        return all(
            health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor", "triggerer")
        )

    def command(self, *arguments: str) -> str:
        """What `airflow ARGUMENTS` says, on its standard output."""
        return self.environment.run("airflow", *arguments, env=self.variables)

    def run(self, dag_id: str, **conf: Any) -> None:
        """Start a DAG, and wait until it has succeeded."""
        run_id = self.client.trigger(dag_id, conf)
        state = wait_for_run(self.client, dag_id, run_id, RUN_LIMIT_S)
        assert state == "success", f"{dag_id}: {state}\n{self.logs(dag_id, run_id)}"

    def logs(self, dag_id: str, run_id: str) -> str:
        """The last lines of every task of a run."""
        tasks = self.client.task_instances(dag_id, run_id)
        return "\n".join(
            f"{one['task_id']}: {one['state']}\n{task_log(self.client, dag_id, run_id, one['task_id'])[-1500:]}"
            for one in tasks
        )

    def test_connection(self, connection: Mapping[str, Any]) -> tuple[bool, str]:
        """The button *Test*: whether it is green, and what it says."""
        answer = self.client.request("POST", "/connections/test", json={"connection_id": "tried", **connection})
        return answer["status"], answer["message"]
