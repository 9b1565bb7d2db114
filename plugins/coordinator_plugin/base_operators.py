"""Base classes of all tasks. A text from a consumer, a znode or a form is an argument, and never a template.

Airflow renders every field in a class's `template_fields`, even values from XCom by `expand_kwargs`, and its sandbox
does not prevent commands. So no class here lists any field, and `execute` reads the run's parameters.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DagRunTriggerException
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger
from airflow.utils.helpers import build_airflow_dagrun_url

from coordinator_plugin.airflow_versions import CAN_RUN_LATER
from coordinator_plugin.hook import CoordinatorHook
from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused
from coordinator_tasks.core.model import Actor
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator


class UntemplatedOperator(BaseOperator):
    """A task whose arguments Airflow does not render. List this class before any other operator among the bases."""

    template_fields: Any = ()
    template_ext: Any = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.log.info("%s", line)

    def end_in_triggerer(self, trigger: BaseTrigger, limit_s: float) -> NoReturn:
        """Defer to a trigger that ends the task after at most `limit_s`. Airflow's own time limit comes later."""
        self.defer(trigger=trigger, method_name="never_resumed", timeout=timedelta(seconds=limit_s + 60))

    def never_resumed(self, context: Context, event: object = None) -> None:
        """Do nothing. Airflow needs the name of a method with which to resume."""
        raise AirflowException(f"{context['ti'].task_id} came back to a worker with {event!r}: its trigger ends it")


class ClusterOperator(UntemplatedOperator):
    """A task for one cluster. An empty `cluster` means the default cluster."""

    def __init__(self, *, cluster: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster

    @contextmanager
    def coordinator(self) -> Iterator[Coordinator]:
        """Yield the cluster's coordinator. An error of the coordinator ends the task with one line."""
        opened = CoordinatorHook(self.cluster).open()
        with one_line_errors(), opened as coordinator, about(cluster=coordinator.paths.cluster):
            yield coordinator


class TriggeredRunLink(BaseOperatorLink):
    """The link from a task to the run that it triggered; empty without such a run."""

    name = "Triggered DAG"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        run_id = XCom.get_value(ti_key=ti_key, key="trigger_run_id")
        return build_airflow_dagrun_url(operator.trigger_dag_id, run_id) if run_id else ""  # type: ignore[attr-defined]


class TriggerRunOperator(UntemplatedOperator):
    """Starts a run of a DAG unless a run of this id exists.

    Airflow's own operator imports Airflow's models, which takes more than half of the time of all imports of a task.
    """

    operator_extra_links = (TriggeredRunLink(),)

    def __init__(
        self,
        *,
        trigger_dag_id: str,
        trigger_run_id: str | None = None,
        conf: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.trigger_dag_id = trigger_dag_id
        self.trigger_run_id = trigger_run_id
        self.conf = conf
        self.run_after: datetime | None = None

    def execute(self, context: Context) -> None:  # noqa: ARG002 - Airflow's signature
        """Request the run. The request ends this task.

        The task is skipped if the run exists, or if this version of Airflow cannot delay a run.
        """
        if self.run_after is not None and not CAN_RUN_LATER:
            raise AirflowSkipException("this Airflow starts no run for later: reconcile continues within a minute")
        later: dict[str, Any] = {"run_after": self.run_after} if CAN_RUN_LATER else {}
        run_id = self.trigger_run_id or f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
        once: dict[str, Any] = {"reset_dag_run": False, "skip_when_already_exists": True}
        no_wait = {"wait_for_completion": False, "allowed_states": [], "failed_states": [], "poke_interval": 0}
        raise DagRunTriggerException(
            trigger_dag_id=self.trigger_dag_id,
            dag_run_id=run_id,
            conf=dict(self.conf or {}),
            deferrable=False,
            **{**once, **no_wait, **later},
        )


class PassingError(AirflowException):
    """An error that may pass, such as a ZooKeeper that does not answer. A retry may succeed."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raise errors as single lines. A permanent error fails the task at once; after any other error Airflow retries."""
    try:
        yield
    except (Refused, Malformed) as error:
        raise AirflowFailException(error.told) from None
    except CoordinatorError as error:
        raise PassingError(error.told) from None


def actor_of(context: Context) -> Actor:
    """Return DAG, run, task and try as the actor, with the person who requested the run."""
    ti, who = context["ti"], getattr(context["dag_run"], "triggering_user_name", None) or ""
    return Actor("airflow", who, ti.dag_id, ti.run_id, ti.task_id, ti.try_number)
