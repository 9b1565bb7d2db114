"""Six empty tasks in a row, and six of our tasks without work: three plan, three look for a transition."""

from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, chain
from coordinator_plugin.operators import StartOperator, TransitionOperator

from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import transitions

TASKS = 6


class Empty(BaseOperator):
    """Does nothing."""

    def execute(self, context: Context) -> None:
        """Nothing."""


class Preview(TransitionOperator):
    """A whole plan that is never written."""

    @staticmethod
    def step(c: Coordinator, topics: tuple[str, ...], _actor: Any) -> list[transitions.TopicReport]:
        return transitions.preview(c, topics)


with DAG("empty_tasks", schedule=None, is_paused_upon_creation=False):
    chain(*(Empty(task_id=f"t{number}") for number in range(TASKS)))
with DAG("our_tasks", schedule=None, is_paused_upon_creation=False):
    chain(*((Preview, StartOperator)[number % 2](task_id=f"t{number}") for number in range(TASKS)))
