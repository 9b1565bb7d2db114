"""Base classes of all tasks: what a consumer, a znode or a form says is an argument here, and never a template.

Airflow renders every field that a class names in `template_fields`, also what comes from XCom by `expand_kwargs`, and its
sandbox keeps nobody from running commands. So no class here names any, and the run's parameters are read by `execute`.
"""

from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator


class UntemplatedOperator(BaseOperator):
    """Airflow renders no argument of the task; beside another operator it is the first base class."""

    template_fields: Any = ()
    template_ext: Any = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}


class TriggerRunOperator(UntemplatedOperator, TriggerDagRunOperator):
    """Starts a run of a DAG, unless a run of this id is there."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(logical_date=None, skip_when_already_exists=True, **kwargs)
