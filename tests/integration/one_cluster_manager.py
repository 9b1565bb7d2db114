"""An auth manager of Airflow with users who may read one cluster alone."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from coordinator_plugin.clusters import clusters

ONLY = "only-"


class OneClusterManager(SimpleAuthManager):
    """The user `only-CLUSTER` has no right to a DAG of another cluster."""

    def is_authorized_dag(self, *, details: Any = None, user: Any, **asked: Any) -> bool:
        name = user.get_name()
        of_dag = details.id.partition("__")[2] or clusters()[0].name if details is not None and details.id else ""
        elsewhere = name.startswith(ONLY) and of_dag and of_dag != name.removeprefix(ONLY)
        return not elsewhere and bool(super().is_authorized_dag(details=details, user=user, **asked))
