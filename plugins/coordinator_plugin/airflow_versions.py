"""Differences between the supported versions of Airflow. Version 3.2 lacks the names looked up here."""

from inspect import signature

from airflow.sdk import exceptions

WAITING = tuple(
    getattr(exceptions, name) for name in ("TaskAwaitingInput", "TaskDeferred") if hasattr(exceptions, name)
)
"""Exceptions with which Airflow's operator ends a task that waits for a person, by version."""

CAN_RUN_LATER = "run_after" in signature(exceptions.DagRunTriggerException).parameters
"""Whether a task may start a run for a later time."""
