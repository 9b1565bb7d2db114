"""The DAGs of the installed package.

A file of two lines in a DAG folder shows them to Airflow:

from coordinator_plugin.loader import dags
globals().update(dags())
"""

from importlib import import_module

from airflow.sdk import DAG

PACKAGE = "coordinator_dags"
FILES = ("actions", "consumers", "rebalance", "reconcile", "stuck_topic")


def dags() -> dict[str, DAG]:
    """All DAGs by their ids, for all clusters of this Airflow."""
    modules = (import_module(f"{PACKAGE}.{name}") for name in FILES)
    found = [value for module in modules for value in vars(module).values() if isinstance(value, DAG)]
    return {dag.dag_id: dag for dag in found}
