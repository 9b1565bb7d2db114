"""Imports the modules that tasks need, in the processes that fork the tasks.

A task is a fork of a worker, so it does not repeat the worker's imports. A worker imports this module with the plugin
if Airflow loads plugins at its start (`[core] lazy_load_plugins = False`). No module here connects or starts a thread.
"""

from importlib import import_module

_TASKS = ("dagparts", "launch", "operators", "question", "upkeep")
_MODULES = (*(f"coordinator_plugin.{name}" for name in _TASKS), "coordinator_tasks.wiring")


def preload() -> None:
    """Import the modules that tasks need."""
    for module in _MODULES:
        import_module(module)
