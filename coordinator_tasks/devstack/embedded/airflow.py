"""Airflow on one machine: api-server, scheduler, dag-processor and triggerer as processes of our own, on SQLite.

``airflow standalone`` is not used: its children survive its exit, and it cannot restart a dead child.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import coordinator_tasks
from coordinator_tasks.devstack.embedded import airflow_home
from coordinator_tasks.devstack.embedded.airflow_client import AirflowClient
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.java import OPTIONS_VARIABLES

READY_TIMEOUT_S = 180.0
READY_POLL_S = 0.2
# The triggerer notices its child's end only after 10 s, and then signs off. If it does not sign off, the next triggerer
# takes over the triggers only when the heartbeat threshold is over.
STOP_TIMEOUT_S = 15.0
LEAVE_TIMEOUT_S = 3.0
"""For the end of a ``with`` block. Nothing is started afterwards, so no service needs to sign off."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
OTHERS = ("AIRFLOW", "_AIRFLOW", "COORDINATOR_", "OPENLINEAGE_")
NOT_INHERITED = (*OTHERS, *OPTIONS_VARIABLES, *PROXIES, *map(str.upper, PROXIES))
"""Prefixes of variables that the services do not inherit. The first three take precedence over airflow.cfg, and may
name another Airflow's database, connections and clusters. With OpenLineage's variables, consumers would report to the
site's lineage. A proxy cannot reach this machine's loopback address, at which the tasks report to the api-server.
"""


class Service(StrEnum):
    """The four services. Each value is Airflow's name of the service."""

    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    DAG_PROCESSOR = "dag-processor"
    TRIGGERER = "triggerer"


API_SERVER_MODULE = "coordinator_tasks.devstack.embedded.api_server"
# These services would start log servers for other machines. Here the api-server reads the files itself.
LOG_SERVERS = (Service.SCHEDULER, Service.TRIGGERER)


class EmbeddedAirflow:
    """Airflow's services. ``home`` keeps database, logs and password, also when the services restart.

    - ``env``: variables to add to the environment of all services. ``environment``: all variables that are added.
    - ``connections``: connection id → fields (``conn_type``, ``host``, ``port``, ``extra``, ...).
    - ``settings``: ``section.option`` → value. ``expected_dags``: DAGs that the start waits for.
    - ``port``: 0 takes a free port. ``base_url``: the address of UI and API.
    - ``username``, ``password``: of the only user, an administrator.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        plugins_folder: Path | None = None,
        *,
        env: Mapping[str, str] | None = None,
        connections: Mapping[str, Mapping[str, Any]] | None = None,
        settings: Mapping[str, str] | None = None,
        expected_dags: Collection[str] = (),
        port: int = 0,
    ) -> None:
        self.home, port = home.absolute(), port or free_port()
        self.base_url, self.username = f"http://{HOST}:{port}", airflow_home.USERNAME
        self.password = airflow_home.prepare(self.home, port, dags_folder, plugins_folder, settings or {})
        self.expected_dags = frozenset(expected_dags)
        self.environment = {
            **self._base_environment(),
            **airflow_home.connection_variables(connections or {}),
            **(env or {}),
        }
        self.client = AirflowClient(self.base_url, self.username, self.password)
        self.services = {service: self._process(service) for service in Service}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(timeout_s=LEAVE_TIMEOUT_S)

    def start(self, *services: Service, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start the services (all by default). Wait until they are healthy and the expected DAGs are parsed.

        The api-server reports the health of all services, so start it first or together with others.
        """
        chosen = services or tuple(Service)
        deadline_s = time.monotonic() + timeout_s
        try:
            for service in chosen:
                self.services[service].spawn()
            for service in chosen:
                self.services[service].wait_ready(max(0.0, deadline_s - time.monotonic()))
            if Service.API_SERVER in chosen:
                self.client.warm_up()
            if Service.DAG_PROCESSOR in chosen:
                self.wait_for_dags(self.expected_dags, max(0.0, deadline_s - time.monotonic()))
        except BaseException:
            self.kill(*chosen)
            raise

    def stop(self, *services: Service, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the services (all by default) within ``timeout_s``. Then kill the tasks that a scheduler has left."""
        chosen = services or tuple(Service)
        deadline_s = time.monotonic() + timeout_s
        for service in chosen:
            self.services[service].terminate()
        for service in chosen:
            self.services[service].stop(max(0.0, deadline_s - time.monotonic()))
        self._drop_connections(chosen)

    def kill(self, *services: Service) -> None:
        """Kill -9 the services (all by default) and their tasks."""
        chosen = services or tuple(Service)
        for service in chosen:
            self.services[service].kill()
        self._drop_connections(chosen)

    def wait_for_dags(self, dag_ids: Collection[str], timeout_s: float) -> None:
        """Wait until all these DAGs are parsed. If a file cannot be imported, raise AirflowUnavailable at once."""
        deadline_s = time.monotonic() + timeout_s
        while missing := set(dag_ids) - self.client.dag_ids():
            for file_name, trace in self.client.import_errors().items():
                reason = trace.strip().splitlines()[-1:]
                raise AirflowUnavailable(
                    f"Airflow cannot import the DAG file {file_name}: {' '.join(reason)}; correct it and start again"
                )
            if time.monotonic() > deadline_s:
                raise AirflowUnavailable(
                    f"Airflow has not parsed {', '.join(sorted(missing))} within {timeout_s:g} s: check the DAG folder, "
                    f"and see {self._log_path(Service.DAG_PROCESSOR)}"
                )
            time.sleep(READY_POLL_S)

    def _drop_connections(self, ended: Collection[Service]) -> None:
        if Service.API_SERVER in ended:
            self.client.close()

    def _healthy(self, service: Service) -> bool:
        try:
            health = self.client.health()
        except AirflowUnavailable:
            return False
        if service is Service.API_SERVER:
            return True
        name = service.value.replace("-", "_")
        heartbeat = health[name][f"latest_{name}_heartbeat"]
        if health[name]["status"] != "healthy" or heartbeat is None:
            return False
        # For a while after a crash, Airflow still reports the former process's last heartbeat as healthy.
        return datetime.fromisoformat(heartbeat).timestamp() >= self.services[service].started_s

    def _process(self, service: Service) -> ManagedProcess:
        module = API_SERVER_MODULE if service is Service.API_SERVER else "airflow"
        options = ["--skip-serve-logs"] if service in LOG_SERVERS else []
        spec = ProcessSpec(
            name=f"Airflow's {service}",
            argv=(sys.executable, "-m", module, service.value, *options),
            log_path=self._log_path(service),
            env=self.environment,
            not_inherited=NOT_INHERITED,
            cwd=self.home,
            stop_timeout_s=STOP_TIMEOUT_S,
        )
        return ManagedProcess(spec, ready=lambda: self._healthy(service))

    def _log_path(self, service: Service) -> Path:
        return self.home / f"{service.value}.log"

    def _base_environment(self) -> dict[str, str]:
        # DAGs and plugins import this project from the place where it is installed or checked out.
        project = str(Path(coordinator_tasks.__file__).parent.parent)
        inherited = os.environ.get("PYTHONPATH")
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW_CONFIG": str(self.home / "airflow.cfg"),
            "COORDINATOR_LAUNCH_POOL": airflow_home.LAUNCH_POOL,
            "PYTHONPATH": os.pathsep.join(filter(None, (project, inherited))),
        }
