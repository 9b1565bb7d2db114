"""Differences between the supported versions of Airflow. Airflow 3.2 lacks the names that this module looks up."""

from inspect import signature

from airflow.sdk import exceptions

WAITING = tuple(
    getattr(exceptions, name) for name in ("TaskAwaitingInput", "TaskDeferred") if hasattr(exceptions, name)
)
"""Exceptions with which Airflow's operator ends a task that waits for a person, by version."""

CAN_RUN_LATER = "run_after" in signature(exceptions.DagRunTriggerException).parameters
"""Whether a task may start a run at a later time."""
