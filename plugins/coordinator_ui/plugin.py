"""Airflow's plugin for the pages. DAGs use the classes of `coordinator_plugin` directly."""

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin
from coordinator_plugin.preload import preload

from coordinator_ui.registration import EXTERNAL_VIEWS, FASTAPI_APPS, REACT_APPS

if not conf.getboolean("core", "lazy_load_plugins"):
    preload()


class CoordinatorPlugin(AirflowPlugin):
    """The plugin. Airflow finds it by the package's entry point, or by `plugins/coordinator.py` in a plugins folder."""

    name = "coordinator"
    fastapi_apps = FASTAPI_APPS
    external_views = EXTERNAL_VIEWS
    react_apps = REACT_APPS
