"""Registers the coordinator with Airflow; everything else is in `coordinator_plugin` and `coordinator_ui`."""

from airflow.plugins_manager import AirflowPlugin
from coordinator_ui.registration import EXTERNAL_VIEWS, FASTAPI_APPS


class CoordinatorPlugin(AirflowPlugin):
    """Its DAGs use the classes of `coordinator_plugin` directly; Airflow serves the pages of `coordinator_ui`."""

    name = "coordinator"
    fastapi_apps = FASTAPI_APPS
    external_views = EXTERNAL_VIEWS
