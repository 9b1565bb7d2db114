"""Launches a consumer, a long-lived Spark application, from a task that ends as soon as the consumer has registered.

The command is that of `SparkSubmitOperator`. In client mode the driver is let go through `spark_apps.launch.launcher`, so that
neither the end of the task nor a restart of Airflow touches it; on YARN and Kubernetes in cluster mode spark-submit
does not wait for the application. From then on the registration in ZooKeeper tells whether the consumer is there.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.operators import one_line_errors
from coordinator_plugin.run_location import launched_elsewhere, let_go_problem, run_base
from coordinator_plugin.steps import registered
from coordinator_plugin.triggers import RegistrationTrigger
from coordinator_plugin.untemplated import UntemplatedOperator
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import check_consumer
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.service import fleet
from coordinator_tasks.service.coordinator import Coordinator

LIMIT_S = 180.0
STOP_LIMIT_S = 60.0
LAUNCHER_LIMIT_S = 30.0
SUBMIT_LIMIT_S = 300.0
_LET_GO = {"spark.yarn.submit.waitAppCompletion": "false", "spark.kubernetes.submission.waitAppCompletion": "false"}
_PRIVATE_PREFIXES = ("AIRFLOW", "_AIRFLOW", "COORDINATOR_")
"""Of a task's own environment: connections with their secrets, and settings of other clusters. Not for the consumer."""
_KEPT = frozenset({"COORDINATOR_EMBEDDED_MARK"})


@dataclass(frozen=True, slots=True)
class _Files:
    """The run folder, and the two files with secrets in it."""

    folder: RunFolder

    def variables(self) -> dict[str, str]:
        """What the consumer finds in its environment: names of files, no secret."""
        return {
            "COORDINATOR_SETTINGS": str(self.folder.settings),
            "ASSIGNED_KAFKA_SETTINGS_FILE": str(self.folder.kafka),
        }


class LaunchConsumerOperator(UntemplatedOperator, SparkSubmitOperator):
    """Brings one consumer to life under its stable id, at most once however often the task is tried.

    - `consumer`: the id; one that is registered already ends the task at once.
    - `application`, `application_args`, `conf`: without an application, these are as the fleet says.
    - `limit_s`: how long to wait for the registration. `base`: the folder of all run folders on the worker's host.
    - `stop_limit_s`: a consumer that leaves and is not gone by then is ended by its launcher, in client mode.
    - everything else as with `SparkSubmitOperator`; `env_vars` are for what is not secret.
    """

    def __init__(
        self,
        *,
        consumer: str,
        cluster: str = "",
        limit_s: float = LIMIT_S,
        stop_limit_s: float = STOP_LIMIT_S,
        base: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stop_limit_s = stop_limit_s
        self.consumer = consumer
        self.cluster = cluster
        self.limit_s = limit_s
        self.base = base

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # noqa: ARG002 - the base class waits and returns nothing
        """Launch, unless it is there; then wait in the triggerer, where the task ends."""
        with one_line_errors():
            check_consumer(self.consumer)
            hook = CoordinatorHook(self.cluster)
            with hook.open() as coordinator:
                member = registered(coordinator, self.consumer)
                if member is None and not self.application:
                    self._as_the_fleet_says(coordinator)
            if member is not None:
                self.log.info("%s is there already, as incarnation %s", self.consumer, member.incarnation)
                return {"consumer": self.consumer, "incarnation": member.incarnation, "launched": False}
            folder = None if launched_elsewhere() else self._launch(hook)
        self.defer(
            trigger=RegistrationTrigger(
                cluster=hook.cluster.name,
                consumer=self.consumer,
                folder=str(folder.path) if folder is not None else "",
                limit_s=self.limit_s,
                deadline_at=time.time() + self.limit_s,
            ),
            method_name="never_resumed",
            timeout=timedelta(seconds=self.limit_s + 60),
        )
        raise AirflowException("a deferred task goes on")  # defer() raises; this is for the reader of types

    def never_resumed(self, context: Context, event: object = None) -> None:
        """Named to Airflow because it wants a name: the trigger ends the task."""
        raise AirflowException(f"the launch of {context['ti'].task_id} came back to a worker with {event!r}")

    def on_kill(self) -> None:
        """Ends nothing: a consumer is stopped by draining it, not by ending the task that launched it."""

    def _as_the_fleet_says(self, coordinator: Coordinator) -> None:
        """Read here and not handed over by XCom, which everybody may read who may see the DAG."""
        launch = fleet.launch_of(coordinator, self.consumer)
        if launch is None:
            raise AirflowSkipException(f"{self.consumer} is in no fleet any more: nothing is launched")
        self.application, self.application_args = launch.application, list(launch.arguments)
        self.conf = {**(self.conf or {}), **launch.conf}

    def _launch(self, hook: CoordinatorHook) -> RunFolder:
        folder = RunFolder.of(run_base(self.base), hook.cluster.name, self.consumer)
        self.name = f"{hook.cluster.name}.{self.consumer}"
        files = _Files(folder)
        variables = {**files.variables(), **(self.env_vars or {})}
        submit = self._submit_hook(variables)
        if submit._connection["deploy_mode"] == "cluster":  # noqa: SLF001 - the base class's own way
            self._submit_and_leave(submit, hook, files)
            return folder
        self.application_args = [*self._arguments(), "--run-folder", str(folder.path)]
        submit = self._submit_hook(variables)
        problem = let_go_problem()
        if problem:
            raise Refused(problem)
        self._write(hook, folder)
        self._let_go(submit, hook, folder, variables)
        return folder

    def _arguments(self) -> list[str]:
        """The application's own arguments, and the one that every consumer understands."""
        return [*(self.application_args or []), "--consumer", self.consumer]

    def _submit_hook(self, variables: Mapping[str, str]) -> SparkSubmitHook:
        self.conf = {**(self.conf or {})}
        self.env_vars = dict(variables)
        return self._get_hook()

    def _write(self, hook: CoordinatorHook, folder: RunFolder) -> None:
        plain = hook.plain_settings()
        folder.make()
        write_private(folder.settings, plain)
        write_private(folder.kafka, plain["kafka"])

    def _let_go(
        self, submit: SparkSubmitHook, hook: CoordinatorHook, folder: RunFolder, variables: Mapping[str, str]
    ) -> None:
        command = [
            *(sys.executable, "-m", "spark_apps.launch.launcher"),
            *("--cluster", hook.cluster.name, "--consumer", self.consumer, "--base", str(folder.path.parent.parent)),
            *("--stop-limit", f"{self.stop_limit_s:g}", "--"),
            *submit._build_spark_submit_command(self.application),  # noqa: SLF001 - the base class's own command
        ]
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE_PREFIXES) or name in _KEPT
        }
        done = subprocess.run(
            command,
            env={**inherited, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LAUNCHER_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the launcher said nothing")
        told = json.loads(done.stdout)
        if told["started"]:
            self.log.info("launched %s: launcher %s, log %s", self.consumer, told["pid"], told["log"])
        else:
            self.log.info("%s was launched before and has not registered yet: waiting for it", self.consumer)

    def _submit_and_leave(self, submit: SparkSubmitHook, hook: CoordinatorHook, files: _Files) -> None:
        """Cluster mode: the files travel with the application, into the driver's working directory."""
        master = submit._connection["master"]  # noqa: SLF001 - the base class's own way
        if master.startswith("spark://"):
            raise Refused("Spark's standalone master runs no Python driver in cluster mode: use client mode")
        self._write(hook, files.folder)
        self.files = ",".join(filter(None, (self.files, str(files.folder.settings), str(files.folder.kafka))))
        self.conf = {**_LET_GO, **(self.conf or {})}
        names = {
            "COORDINATOR_SETTINGS": files.folder.settings.name,
            "ASSIGNED_KAFKA_SETTINGS_FILE": files.folder.kafka.name,
        }
        self.application_args = self._arguments()
        again = self._submit_hook({**(self.env_vars or {}), **names})
        command = again._build_spark_submit_command(self.application)  # noqa: SLF001 - the base class's own command
        done = subprocess.run(
            command,
            env={**os.environ, **(again._env or {})},  # noqa: SLF001 - the base class's own environment
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SUBMIT_LIMIT_S,
            check=False,
        )
        for line in (done.stdout + done.stderr).splitlines()[-20:]:
            self.log.info("  %s", line)
        if done.returncode != 0:
            raise AirflowException(f"spark-submit of {self.consumer} ended with exit code {done.returncode}")
