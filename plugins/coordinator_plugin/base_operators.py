"""Base classes of all tasks: what a consumer, a znode or a form says is an argument, and never a template.

Airflow renders every field that a class names in `template_fields`, also what comes from XCom by `expand_kwargs`, and its
sandbox keeps nobody from running commands. So no class here names any, and the run's parameters are read by `execute`.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, DagRunTriggerException
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger
from airflow.utils.helpers import build_airflow_dagrun_url

from coordinator_plugin.hook import CoordinatorHook
from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.coordinator import Coordinator


class UntemplatedOperator(BaseOperator):
    """Airflow renders no argument of the task. Beside another operator this is the first base class."""

    template_fields: Any = ()
    template_ext: Any = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def say(self, lines: Iterable[str]) -> None:
        """Into the task's log."""
        for line in lines:
            self.log.info("%s", line)

    def end_in_triggerer(self, trigger: BaseTrigger, limit_s: float) -> NoReturn:
        """Defer to a trigger that ends the task itself, after `limit_s` at the latest; Airflow's own limit is the last resort."""
        self.defer(trigger=trigger, method_name="never_resumed", timeout=timedelta(seconds=limit_s + 60))

    def never_resumed(self, context: Context, event: object = None) -> None:
        """Airflow wants the name of a method to resume with."""
        raise AirflowException(f"{context['ti'].task_id} came back to a worker with {event!r}: its trigger ends it")


class ClusterOperator(UntemplatedOperator):
    """A task for one cluster; `cluster` empty = the default one."""

    def __init__(self, *, cluster: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster

    @contextmanager
    def coordinator(self) -> Iterator[Coordinator]:
        """The cluster's coordinator; what it raises ends the task with one line."""
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            yield coordinator


class TriggeredRunLink(BaseOperatorLink):
    """Leads from a task to the run that it has started; empty without one."""

    name = "Triggered DAG"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        run_id = XCom.get_value(ti_key=ti_key, key="trigger_run_id")
        return build_airflow_dagrun_url(operator.trigger_dag_id, run_id) if run_id else ""  # type: ignore[attr-defined]


class TriggerRunOperator(UntemplatedOperator):
    """Starts a run of a DAG, unless a run of this id is there.

    Airflow's own operator imports Airflow's models: more than half of what all imports of a task take.
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
        """Ask for the run, which ends the task: skipped if the run is there already."""
        raise DagRunTriggerException(
            trigger_dag_id=self.trigger_dag_id,
            dag_run_id=self.trigger_run_id or f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}",
            conf=dict(self.conf or {}),
            run_after=self.run_after,
            reset_dag_run=False,
            skip_when_already_exists=True,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=0,
            deferrable=False,
        )


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Errors as a person reads them: what a retry cannot mend fails at once, the rest is tried again."""
    try:
        yield
    except (Refused, Malformed) as error:
        raise AirflowFailException(str(error)) from None
    except CoordinatorError as error:
        raise AirflowException(f"{type(error).__name__}: {error}") from None


def actor_of(context: Context) -> Actor:
    """Who runs this: dag, run, task and try, and the person who asked for the run."""
    ti = context["ti"]
    return Actor(
        kind="airflow",
        who=getattr(context["dag_run"], "triggering_user_name", None) or "",
        dag=ti.dag_id,
        run=ti.run_id,
        task=ti.task_id,
        attempt=ti.try_number,
    )
