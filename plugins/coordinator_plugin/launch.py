"""Launches a consumer, a long-lived Spark application. The task ends as soon as the consumer has registered.

`SparkSubmitOperator` builds the command. In client mode `spark_apps.launch.launcher` starts the driver, so the driver
survives the end of the task and a restart of Airflow. In cluster mode on YARN and Kubernetes, spark-submit does not
wait for the application. Then the registration in ZooKeeper shows whether the consumer runs.

Only the fleet restarts a dead consumer. The cluster's own second attempt is off, unless `conf` sets it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from coordinator_plugin import cluster_mode, openlineage
from coordinator_plugin.base_operators import ClusterOperator, one_line_errors
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.run_location import launched_elsewhere, let_go_problem, run_base
from coordinator_plugin.steps import registered
from coordinator_plugin.triggers import RegistrationTrigger
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import check_consumer
from coordinator_tasks.fleet_values import PRIVATE_PREFIXES
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet

LIMIT_S = 180.0
"""Seconds to wait for the registration."""
STOP_LIMIT_S = 60.0
"""Seconds for a leave in client mode. After this time the launcher kills the consumer."""
LAUNCHER_LIMIT_S = 30.0
SUBMIT_LIMIT_S = 300.0
_KEPT = frozenset({"COORDINATOR_EMBEDDED_MARK"})


class SparkApplicationLink(BaseOperatorLink):
    """The link to YARN's page of a consumer in cluster mode, with Spark's pages and the driver's logs."""

    name = "Spark application"

    def get_link(self, operator: Any, *, ti_key: object) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the page that spark-submit has reported to this task; empty if it has reported none."""
        return str(operator.tracking_url)


class LaunchConsumerOperator(ClusterOperator, SparkSubmitOperator):
    """Launches one consumer under its stable id.

    In client mode, all tries of the task launch the consumer only once. In cluster mode, each try submits the consumer,
    because the task cannot see an application that waits for resources. The process that registers first runs, and the
    others end.

    - `consumer`: the id. If it is registered already, the task ends at once.
    - `application`, `application_args`, `conf`: taken from the fleet if no application is given.
    - `base`: the folder of all run folders on the worker's host.
    - The other arguments are those of `SparkSubmitOperator`. `env_vars` is not for secrets.
    """

    operator_extra_links = (SparkApplicationLink(),)

    def __init__(self, *, consumer: str, base: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.consumer = consumer
        self.base = base
        self.tracking_url = ""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # noqa: ARG002 - the base class waits and returns nothing
        """Launch the consumer if absent. Then wait in the triggerer, where the task ends."""
        with one_line_errors():
            check_consumer(self.consumer)
            hook = CoordinatorHook(self.cluster)
            with hook.open() as coordinator:
                member = registered(coordinator, self.consumer)
                if member is None and not self.application:
                    self._as_the_fleet_says(coordinator)
            if member is None:
                began_at = time.time()
                folder = "" if launched_elsewhere() else self._launch(hook)
                deadline_at = time.time() + LIMIT_S
                trigger = RegistrationTrigger(hook.cluster.name, self.consumer, folder, LIMIT_S, deadline_at, began_at)
                self.end_in_triggerer(trigger, LIMIT_S)
        self.log.info("%s is already there, as incarnation %s", self.consumer, member.incarnation)
        return {"consumer": self.consumer, "incarnation": member.incarnation, "launched": False}

    def on_kill(self) -> None:
        """Do nothing, because only draining stops a consumer, and not the end of its launching task."""

    def _as_the_fleet_says(self, coordinator: Coordinator) -> None:
        """Read the fleet in this task and not in another, whose XComs all readers of the DAG may read."""
        launch = fleet.launch_of(coordinator, self.consumer)
        if launch is None:
            raise AirflowSkipException(f"{self.consumer} is in no fleet any more: nothing is launched")
        self.application, self.application_args = launch.application, list(launch.arguments)
        self.conf = {**(self.conf or {}), **launch.conf}
        self.env_vars = {**(self.env_vars or {}), **launch.environment}

    def _launch(self, hook: CoordinatorHook) -> str:
        """Return the run folder, where the end of the consumer will be recorded.

        In cluster mode, this host has no run folder: return an empty text.
        """
        folder = RunFolder.of(run_base(self.base), hook.cluster.name, self.consumer)
        self.name = f"{hook.cluster.name}.{self.consumer}"
        self.application_args = [*(self.application_args or []), "--consumer", self.consumer]
        if problem := cluster_mode.provider_problem(self._conn_id):
            raise Refused(problem)
        connection = self._get_hook()._connection  # noqa: SLF001 - the base class's own way
        if connection["deploy_mode"] == "cluster":
            self._submit(hook, folder, connection["master"])
            return ""
        self._let_go(hook, folder, connection["master"])
        return str(folder.path)

    def _let_go(self, hook: CoordinatorHook, folder: RunFolder, master: str) -> None:
        """In client mode, let the launcher start the driver, so that the driver is no child of an Airflow process."""
        if problem := let_go_problem():
            raise Refused(problem)
        hook.write_files(folder)
        self.application_args = [*(self.application_args or []), "--run-folder", str(folder.path)]
        if master == "yarn":
            self._ship(folder.kafka)  # executors may be on other hosts
        lineage = openlineage.variables(folder)
        self.env_vars = {**_variables(str(folder.settings), str(folder.kafka)), **lineage, **(self.env_vars or {})}
        command = [
            *(sys.executable, "-m", "spark_apps.launch.launcher"),
            *("--cluster", hook.cluster.name, "--consumer", self.consumer, "--base", str(folder.path.parent.parent)),
            *("--stop-limit", f"{STOP_LIMIT_S:g}", "--"),
            *self._get_hook()._build_spark_submit_command(self.application),  # noqa: SLF001 - the base class's own command
        ]
        done = _run(command, {**_inherited(), **self.env_vars}, LAUNCHER_LIMIT_S)
        if done.returncode != 0:
            raise Refused(
                done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the launcher gave no answer"
            )
        told = json.loads(done.stdout)
        if told["started"]:
            self.log.info("launched %s: launcher %s, log %s", self.consumer, told["pid"], told["log"])
        else:
            self.log.info("%s is already launched and has not registered yet: waiting for it", self.consumer)

    def _submit(self, hook: CoordinatorHook, folder: RunFolder, master: str) -> None:
        """Submit in cluster mode. On YARN the files go with the application; on Kubernetes a Secret has them."""
        if master.startswith("spark://"):
            raise Refused("Spark's standalone master runs no Python driver in cluster mode: use client mode")
        on_kubernetes = master.startswith(cluster_mode.KUBERNETES)
        plain = hook.plain_settings()
        self.application_args = cluster_mode.reachable(
            self.application_args or [],
            on_kubernetes=on_kubernetes,
            has_token=any(plain.get(name) for name in ("status_token", "status_token_file")),
        )
        if on_kubernetes:
            defaults = cluster_mode.kubernetes_conf(hook.cluster.name)
        else:
            hook.write_files(folder)
            self._ship(folder.settings, folder.kafka)
            self.env_vars = {**(self.env_vars or {}), **_variables(folder.settings.name, folder.kafka.name)}
            defaults = cluster_mode.yarn_conf(folder.kafka.name)
        self.conf = {**defaults, **(self.conf or {})}
        submit = self._get_hook()
        command = submit._build_spark_submit_command(self.application)  # noqa: SLF001 - the base class's own command
        environment = {**_inherited(), **(submit._env or {})}  # noqa: SLF001 - the base class's own environment
        done = _run(command, environment, SUBMIT_LIMIT_S)
        said = cluster_mode.without_traces(done.stdout + done.stderr)
        self.say(said.splitlines()[-20:])
        self.tracking_url = cluster_mode.tracking_url(said)
        if done.returncode != 0:
            why = cluster_mode.cause(said)
            raise AirflowException(f"spark-submit of {self.consumer} ended with exit code {done.returncode}: {why}")

    def _ship(self, *files: Path) -> None:
        """Ship the secret files on YARN. From the staging folder to the containers, only this user can read them."""
        self.files = ",".join(filter(None, (self.files, *map(str, files))))


def _variables(settings: str, kafka: str) -> dict[str, str]:
    """Return the consumer's environment, with paths of files and without secrets."""
    return {"COORDINATOR_SETTINGS": settings, cluster_mode.FILE_VARIABLE: kafka}


def _inherited() -> dict[str, str]:
    """Return the task's environment without its private variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE_PREFIXES) or name in _KEPT}


def _run(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end.

    Raises `Refused` if the program is missing, and `AirflowException` if it takes too long.
    """
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    program = Path(command[0]).name
    try:
        return subprocess.run(command, env=environment, timeout=limit_s, check=False, **streams)
    except subprocess.TimeoutExpired:
        raise AirflowException(
            f"the launch by {program} took longer than {limit_s:g} s, and was ended; look at the cluster and at this host's load, "
            "and try again"
        ) from None
    except OSError as error:
        raise Refused(
            f"{program} cannot be started ({error.strerror}); check that it is installed and on PATH"
        ) from error
