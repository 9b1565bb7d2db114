"""Registers the coordinator with an Airflow that has this folder as its plugins folder."""

from coordinator_ui.plugin import CoordinatorPlugin

__all__ = ["CoordinatorPlugin"]
