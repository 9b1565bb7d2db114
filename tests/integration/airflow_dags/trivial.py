"""A DAG that tells what its task sees; only for the tests of the embedded Airflow."""

from airflow.sdk import BaseHook, dag, get_current_context, task


@dag(schedule=None)
def trivial() -> None:
    """One task."""

    @task
    def tell() -> dict[str, object]:
        run = get_current_context()["dag_run"]
        return {"conf": run.conf, "host": BaseHook.get_connection("example").host}

    tell()


trivial()
