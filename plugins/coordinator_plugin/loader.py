"""The DAGs of the installed package, for a file in the site's DAG folder (`docs/install.md`)."""

from importlib import import_module
from pkgutil import iter_modules

from airflow.sdk import DAG

PACKAGE = "coordinator_dags"


def dags() -> dict[str, DAG]:
    """Return all DAGs by id, for all clusters of this Airflow."""
    files = iter_modules(import_module(PACKAGE).__path__)
    modules = (import_module(f"{PACKAGE}.{file.name}") for file in files)
    found = [value for module in modules for value in vars(module).values() if isinstance(value, DAG)]
    return {dag.dag_id: dag for dag in found}
