"""Registers the coordinator with an Airflow whose plugins folder contains this file."""

from coordinator_ui.plugin import CoordinatorPlugin

__all__ = ["CoordinatorPlugin"]
