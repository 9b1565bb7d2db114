"""The times of a rebalance's tasks, from Airflow's database. Reads only."""

from collections.abc import Collection

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select

from coordinator_tasks.core.model import Actor
from coordinator_ui.data.timeline import TaskSpan

MOST_TASKS = 200
MOST_RUNS = 50


def task_spans(dag_id: str, actors: Collection[Actor]) -> tuple[TaskSpan, ...]:
    """Return the tasks of the actors' runs of this DAG, in the order of their begin, at most `MOST_TASKS`."""
    runs = sorted({one.run for one in actors if one.kind == "airflow" and one.dag == dag_id})[:MOST_RUNS]
    if not runs:
        return ()
    columns = (TaskInstance.run_id, TaskInstance.task_id, TaskInstance.try_number, TaskInstance.state)
    asked = (
        select(*columns, TaskInstance.start_date, TaskInstance.end_date)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id.in_(runs), TaskInstance.start_date.is_not(None))
        .order_by(TaskInstance.start_date)
        .limit(MOST_TASKS)
    )
    with create_session() as session:
        rows = session.execute(asked).all()
    spans = []
    for run, task, attempt, state, begin, end in rows:
        if begin is not None:
            actor, end_at = Actor("airflow", "", dag_id, run, task, attempt), end.timestamp() if end else 0.0
            spans.append(TaskSpan(actor, begin.timestamp(), end_at, str(state or "")))
    return tuple(spans)
