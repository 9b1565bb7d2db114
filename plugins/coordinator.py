"""Registers the coordinator with an Airflow whose plugins folder is this folder."""

from coordinator_ui.plugin import CoordinatorPlugin

__all__ = ["CoordinatorPlugin"]
