"""What differs between the versions of Airflow that this package runs on: 3.2 lacks what is looked up here."""

from inspect import signature

from airflow.sdk import exceptions

WAITING = tuple(
    getattr(exceptions, name) for name in ("TaskAwaitingInput", "TaskDeferred") if hasattr(exceptions, name)
)
"""By which of these Airflow's own operator ends a task that waits for a person, depends on its version."""

CAN_RUN_LATER = "run_after" in signature(exceptions.DagRunTriggerException).parameters
"""Whether a task may start a run for a later time."""
