"""The plugin by which Airflow serves the pages; the DAGs use the classes of `coordinator_plugin` directly."""

from airflow.plugins_manager import AirflowPlugin

from coordinator_ui.registration import EXTERNAL_VIEWS, FASTAPI_APPS


class CoordinatorPlugin(AirflowPlugin):
    """Found by the entry point of the installed package, or by `plugins/coordinator.py` in a plugins folder."""

    name = "coordinator"
    fastapi_apps = FASTAPI_APPS
    external_views = EXTERNAL_VIEWS
