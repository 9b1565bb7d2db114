"""The runs of `consumers`: each launches for one fleet, and a fleet has one at a time. So a slow or failing fleet delays no other one.

The id of a run names its fleet and its time. Airflow tells how many runs of given ids are active, so the ids of the last hour show
whether a run of the fleet is: a run takes no longer.
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
"""Of a run: nothing is launched for the fleet beside one that never ends, such as one that waits for a pool which is not there."""
MOST_AT_ONCE = 32
EVERY_S = 30
"""A fleet gets at most one run in so many seconds."""
AHEAD = 2
"""Clocks of workers differ: so many ids of the near future count too."""


def fleet_runs(dag_id: str, apps: Collection[str], ti: RuntimeTaskInstanceProtocol) -> list[dict[str, Any]]:
    """The runs to start, as arguments of their triggers: one for each of these fleets that has none under way."""
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
    """Starts a run for each fleet with missing consumers, in a run that is for no fleet: that of an event, or of a person."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """The runs to start."""
        if context["params"].get("app"):
            return []
        problems: list[str] = []
        with self.coordinator() as coordinator:
            launches = fleet.missing(coordinator, problems)
            self.say(problems)
        found = fleet_runs(context["ti"].dag_id, sorted({one.app for one in launches}), context["ti"])
        self.say(f"{one['conf']['app']} gets a run of its own: {one['trigger_run_id']}" for one in found)
        return found
