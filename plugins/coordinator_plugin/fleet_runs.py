"""The runs of `consumers`, each for one fleet, and at most one per fleet. So a slow or failing fleet delays no other.

A run's id contains its fleet and time. Airflow counts active runs of given ids, so the ids of the last hour show
whether the fleet has an active run: no run takes longer.
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

A run that never ends, such as a wait for a missing pool, blocks the fleet's launches for this time only.
"""
MOST_AT_ONCE = 32
EVERY_S = 30
"""A fleet gets at most one run in this many seconds."""
AHEAD = 2
"""Future ids that also count, since the clocks of workers differ."""


def fleet_runs(dag_id: str, apps: Collection[str], ti: RuntimeTaskInstanceProtocol) -> list[dict[str, Any]]:
    """Return the runs to start, as arguments of their triggers: a run for each of these fleets without an active run."""
    free = [app for app in apps if not ti.get_dr_count(dag_id, run_ids=_ids(app), states=ACTIVE)]
    return [{"trigger_dag_id": dag_id, "trigger_run_id": _id(app, _now()), "conf": {"app": app}} for app in free]


def goes_first(app: str, run_id: str, ti: RuntimeTaskInstanceProtocol) -> bool:
    """Whether no earlier run of this fleet is active: two may have been started at once."""
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
    """Starts a run for each fleet with missing consumers, from a run without a fleet (an event's or a person's)."""

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
