"""The runs of `consumers`. A run serves one fleet, and a fleet has at most one run, so a slow fleet delays no other.

A run's id contains fleet and time. Airflow counts the active runs among given ids. No run takes longer than an hour, so
the ids of the last hour show whether the fleet has an active run.
"""

import time
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from airflow.sdk import Context
from airflow.sdk.types import RuntimeTaskInstanceProtocol

from coordinator_plugin.base_operators import ClusterOperator
from coordinator_tasks.service.nodes import fleet

ACTIVE = ["queued", "running"]
LIMIT = timedelta(hours=1)
"""Time limit of a run.

A run that would never end, such as a wait for a missing pool, blocks the fleet's launches only for this time.
"""
MOST_AT_ONCE = 32
EVERY_S = 30
"""Seconds in which a fleet gets at most one run."""
AHEAD = 2
"""Number of future ids that count too, because workers' clocks differ."""


def fleet_runs(dag_id: str, apps: Collection[str], ti: RuntimeTaskInstanceProtocol) -> list[dict[str, Any]]:
    """Return, as arguments of triggers, a run for each of these fleets that has no active run."""
    free = [app for app in apps if not ti.get_dr_count(dag_id, run_ids=_ids(app), states=ACTIVE)]
    return [{"trigger_dag_id": dag_id, "trigger_run_id": _id(app, _now()), "conf": {"app": app}} for app in free]


def goes_first(app: str, run_id: str, ti: RuntimeTaskInstanceProtocol) -> bool:
    """Return whether no earlier run of this fleet is active. Two runs may have started at the same time."""
    earlier = [one for one in _ids(app) if one < run_id]
    return not earlier or not ti.get_dr_count(ti.dag_id, run_ids=earlier, states=ACTIVE)


def _now() -> int:
    return int(time.time() // EVERY_S)


def _id(app: str, number: int) -> str:
    return f"fleet__{app}__{number}"


def _ids(app: str) -> list[str]:
    now = _now()
    return [_id(app, now - ago) for ago in range(-AHEAD, int(LIMIT.total_seconds() // EVERY_S) + 1)]


class FleetRunsOperator(ClusterOperator):
    """Starts a run for each fleet with missing consumers, if this run names no fleet."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        if context["params"].get("app"):
            return []
        problems: list[str] = []
        with self.coordinator() as coordinator:
            launches = fleet.missing(coordinator, problems)
            self.say(problems)
        found = fleet_runs(context["ti"].dag_id, sorted({one.app for one in launches}), context["ti"])
        self.say(f"{one['conf']['app']} gets a run of its own: {one['trigger_run_id']}" for one in found)
        return found
