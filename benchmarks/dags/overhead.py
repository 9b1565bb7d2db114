"""Airflow's own overhead: five empty tasks in a row, a wait that ends in the triggerer, and a wait that resumes."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import DAG, BaseOperator, Context, chain
from airflow.triggers.base import StartTriggerArgs

WAIT_S = 1.0
EMPTY_TASKS = 5


class Empty(BaseOperator):
    """Does nothing."""

    def execute(self, context: Context) -> None:
        """Nothing."""


class WaitInTriggerer(BaseOperator):
    """Starts and ends in the triggerer."""

    start_from_trigger = True
    start_trigger_args = StartTriggerArgs(
        trigger_cls="airflow.providers.standard.triggers.temporal.TimeDeltaTrigger",
        trigger_kwargs={"delta": timedelta(seconds=WAIT_S), "end_from_trigger": True},
        next_method="never_resumed",
        timeout=None,
    )

    def execute(self, context: Context) -> None:
        """Never called."""


class WaitAndResume(BaseOperator):
    """Starts on a worker, waits in the triggerer, and comes back to a worker."""

    def execute(self, context: Context) -> None:  # noqa: ARG002 - Airflow's signature
        """Wait."""
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=WAIT_S)), method_name="resumed")

    def resumed(self, context: Context, event: Any) -> None:
        """Done."""


with DAG("overhead", schedule=None, catchup=False, is_paused_upon_creation=False) as dag:
    empty = [Empty(task_id=f"empty_{number}") for number in range(EMPTY_TASKS)]
    chain(*empty)
    (
        empty[-1]
        >> WaitInTriggerer(task_id="wait_in_triggerer")
        >> Empty(task_id="after_triggerer")
        >> (WaitAndResume(task_id="wait_and_resume"))
        >> Empty(task_id="after_resume")
    )
