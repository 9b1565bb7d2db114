"""Base classes of all tasks: what a consumer, a znode or a form says is an argument, and never a template.

Airflow renders every field that a class names in `template_fields`, also what comes from XCom by `expand_kwargs`, and its
sandbox keeps nobody from running commands. So no class here names any, and the run's parameters are read by `execute`.
"""

from datetime import timedelta
from typing import Any, ClassVar, NoReturn

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger


class UntemplatedOperator(BaseOperator):
    """Airflow renders no argument of the task; beside another operator it is the first base class."""

    template_fields: Any = ()
    template_ext: Any = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def end_in_triggerer(self, trigger: BaseTrigger, limit_s: float) -> NoReturn:
        """Defer to a trigger that ends the task itself, after `limit_s` at the latest; Airflow's own limit is the last resort."""
        self.defer(trigger=trigger, method_name="never_resumed", timeout=timedelta(seconds=limit_s + 60))

    def never_resumed(self, context: Context, event: object = None) -> None:
        """Airflow wants the name of a method to resume with."""
        raise AirflowException(f"{context['ti'].task_id} came back to a worker with {event!r}: its trigger ends it")


class TriggerRunOperator(UntemplatedOperator, TriggerDagRunOperator):
    """Starts a run of a DAG, unless a run of this id is there."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(logical_date=None, skip_when_already_exists=True, **kwargs)
