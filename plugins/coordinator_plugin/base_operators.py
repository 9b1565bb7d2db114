"""Base classes of all tasks: what a consumer, a znode or a form says is an argument, and never a template.

Airflow renders every field that a class names in `template_fields`, also what comes from XCom by `expand_kwargs`, and its
sandbox keeps nobody from running commands. So no class here names any, and the run's parameters are read by `execute`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, NoReturn

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger

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


class TriggerRunOperator(UntemplatedOperator, TriggerDagRunOperator):
    """Starts a run of a DAG, unless a run of this id is there."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(logical_date=None, skip_when_already_exists=True, **kwargs)


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
