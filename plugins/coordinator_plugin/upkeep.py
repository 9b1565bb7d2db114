"""Operators around the transitions: the reconciliation, the fleet, and the actions of the forms."""

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSensorTimeout, AirflowSkipException
from airflow.sdk.types import RuntimeTaskInstanceProtocol

from coordinator_plugin.airflow_versions import CAN_RUN_LATER
from coordinator_plugin.base_operators import (
    ClusterOperator,
    PassingError,
    UntemplatedOperator,
    actor_of,
    one_line_errors,
)
from coordinator_plugin.fleet_runs import ACTIVE, fleet_runs, goes_first
from coordinator_plugin.forms import FORMS
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.links import ResultLink
from coordinator_plugin.reconcile import reconcile, runs
from coordinator_plugin.site_options import option
from coordinator_plugin.stats import pauses_told, tell_audit, tell_figures
from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.text.partition_text import agreed, counted
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.plan import pauses, transitions

LAUNCH = "launch"
"""Name of the task in `consumers` that launches."""
LOOK_S = 10.0
TURN_S = 60.0
MOST_S = 300.0
FOLLOW_S = 30 * 86_400.0
"""Seconds for which a run follows its operation. `reconcile` continues the operation in any case."""
MOST_LAUNCHES = 1_000
"""Maximum launches per run. Airflow cannot map a task over more than 1,024 (`[core] max_map_length`)."""


class ReconcileOperator(ClusterOperator):
    """Does the upkeep and returns the runs to start. `dag_ids`: name → id of this cluster's DAGs."""

    def __init__(self, *, dag_ids: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dag_ids = dag_ids

    def execute(self, context: Context) -> list[dict[str, Any]]:
        with self.coordinator() as coordinator:
            findings = reconcile(coordinator)
            try:
                tell_figures(coordinator, partial(passed_s, context), findings.seen)
            except NoAccess as error:  # the runs to start matter more than the figures
                findings.lines.append(f"the figures are not sent: {error}")
            tell_audit(coordinator.paths.cluster, findings.audited)
            self.say(findings.lines or ["everything is as it should be"])
        ti = context["ti"]
        wanted = {"rebalance": findings.due, "consumers": findings.missing, "autoscale": findings.growing}
        self.say(self._paused(ti, [name for name, work in wanted.items() if work]))

        def under_way(dag_id: str, run_id: str) -> bool:
            return ti.get_dr_count(dag_id, run_ids=[run_id], states=ACTIVE) > 0

        launches = fleet_runs(self.dag_ids["consumers"], findings.fleets, ti)
        if len(launches) < len(findings.fleets):
            self.say(waiting_launches(ti, self.dag_ids["consumers"]))
        return runs(
            findings,
            self.dag_ids,
            active_rebalances=active_runs(ti, self.dag_ids["rebalance"], now=findings.writable),
            active_autoscales=ti.get_dr_count(self.dag_ids["autoscale"], states=ACTIVE) if findings.growing else 0,
            launches=launches,
            under_way=under_way,
        )

    def _paused(self, ti: RuntimeTaskInstanceProtocol, names: Iterable[str]) -> Iterator[str]:
        """Yield a line for each of these DAGs that a person has paused, or that Airflow does not know."""
        for dag_id in (self.dag_ids[name] for name in names if CAN_RUN_LATER):
            try:
                paused = ti.get_dag(dag_id).is_paused
            except AirflowRuntimeError as error:  # other DAGs' work continues
                yield f"Airflow says nothing about {dag_id}, so its part of this may not be done: see that this DAG is there ({error})"
            else:
                if paused:
                    yield f"{dag_id} is paused in Airflow, so its part of this is not done: unpause it"


def active_runs(ti: RuntimeTaskInstanceProtocol, dag_id: str, *, now: bool) -> int:
    """Return the number of active runs. With `now`, runs that are queued for a later time do not count.

    Airflow does not tell for which time a run is queued. In an unpaused DAG all other runs begin at once.
    """
    running, queued = (ti.get_dr_count(dag_id, states=[state]) for state in ("running", "queued"))
    if queued and now and CAN_RUN_LATER and not ti.get_dag(dag_id).is_paused:
        return running
    return running + queued


def waiting_launches(ti: RuntimeTaskInstanceProtocol, dag_id: str) -> Iterator[str]:
    """Yield a line if Airflow starts no launch in the active runs. A task whose pool is missing waits silently."""
    waiting, begun = (
        ti.get_ti_count(dag_id, task_ids=[LAUNCH], states=states)
        for states in (["scheduled"], ["queued", "running", "deferred"])
    )
    if waiting and not begun:
        pool = option("launch_pool")
        yield (
            f"{counted(waiting, 'launch task')} {agreed(waiting, 'waits', 'wait')}, and none runs: Airflow has no pool {pool!r}, or no free "
            f"slot in it; `airflow pools list` shows it, and `airflow pools set {pool} 8 coordinator` makes it"
        )


def passed_s(context: Context) -> float:
    """Return the seconds from the begin of the last successful run to the begin of this run. No time counts twice.

    At most `MOST_S`, because a longer time without observation is unknown. 0 for a run outside of the schedule (by hand
    without a logical date, or a backfill), whose time counts in the next scheduled run.
    """
    run = context["dag_run"]
    if run.logical_date is None or run.run_type == "backfill":
        return 0.0
    began_at = run.start_date
    before = context.get("prev_start_date_success")  # reading this value asks Airflow
    if not before or began_at is None:
        return TURN_S
    return min(max(0.0, began_at.timestamp() - before.timestamp()), MOST_S)


class AutoscaleOperator(ClusterOperator):
    """Looks at the fleets with limits of growth, and reports or applies the decision of each fleet's policy."""

    def execute(self, context: Context) -> list[str]:
        problems: list[str] = []
        with self.coordinator() as coordinator:
            found = [one.text for one in autoscale.look(coordinator, (), actor_of(context), problems)]
            self.say([*found, *problems] or ["no fleet has limits of growth"])
        return found


class MissingConsumersOperator(ClusterOperator):
    """Launches missing consumers of the run's fleet, at most `MOST_LAUNCHES`. Each launch reads the fleet itself.

    The consumers are chosen at random, so that failing launches do not block the others.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the arguments of each launch; none if the run names no fleet, or an earlier run is active."""
        problems: list[str] = []
        app = context["params"].get("app")
        if not app:
            return []
        if not goes_first(app, context["ti"].run_id, context["ti"]):
            self.log.info("another run launches for %s", app)
            return []
        with self.coordinator() as coordinator:
            launches = tuple(one for one in fleet.missing(coordinator, problems) if one.app == app)
            for problem in problems:
                self.log.warning("%s", problem)
            self.say(f"{launch.consumer} of {launch.app} is missing" for launch in launches)
        if len(launches) > MOST_LAUNCHES:
            self.log.info("this run launches %d of them: reconcile starts another one for the rest", MOST_LAUNCHES)
            launches = tuple(random.sample(launches, MOST_LAUNCHES))
        return [{"consumer": launch.consumer} for launch in launches]


def given_of(context: Context) -> dict[str, Any]:
    """Return the run's parameters. Airflow's form sends an emptied text as null."""
    return {name: "" if value is None else value for name, value in context["params"].items()}


@contextmanager
def opened(given: Mapping[str, Any]) -> Iterator[Coordinator]:
    """Yield the coordinator for an action's run. Log lines name its cluster, and the action's topic if any."""
    topic = {"topic": given["topic"]} if given.get("topic") else {}
    cluster = CoordinatorHook(given.get("cluster", "")).open()
    with one_line_errors(), cluster as coordinator, about(cluster=coordinator.paths.cluster, **topic):
        yield coordinator


class ActionOperator(UntemplatedOperator):
    """Runs an action of `forms` with the run's parameters."""

    operator_extra_links = (ResultLink(),)

    def __init__(self, *, action: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action

    def execute(self, context: Context) -> list[str]:
        """Run the action. A dry run logs what the action would do, and its task ends as skipped."""
        given, action = given_of(context), FORMS[self.action]
        dry_run = bool(given.get("dry_run", not action.reads))
        with opened(given) as coordinator:
            lines = action.lines(coordinator, given, actor_of(context), dry_run=dry_run)
            self.say(lines)
        if dry_run:
            context["ti"].xcom_push("return_value", lines)
            raise AirflowSkipException("dry run: nothing was changed; run it again without dry run to do it")
        return lines


class WatchSensor(UntemplatedOperator, BaseSensorOperator):
    """Repeats an action's `watch`, and logs the result, until it is finished. Between two looks no worker is used.

    Each look first measures the cost of the last moves, before the next moves hide it.
    """

    def __init__(self, *, action: str, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", poke_interval=LOOK_S, timeout=FOLLOW_S, **kwargs)
        self.action = action

    def execute(self, context: Context) -> Any:
        """Look once. Airflow brings the next look. After the time-out, the log tells the next steps."""
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            raise AirflowSensorTimeout(
                f"this run has followed for {self.timeout / 86_400:g} days and ends here: `reconcile` continues it; clear this task to "
                "follow it again"
            ) from None

    def poke(self, context: Context) -> bool:
        """Look once. After an error that may pass, the next look follows.

        Raises other errors, which end the task: a refused action is not watched.
        """
        given, watch = given_of(context), FORMS[self.action].watch
        if watch is None:
            return True
        try:
            with opened(given) as coordinator:
                told = pauses_told(coordinator.paths.cluster)
                pauses.complete(coordinator, transitions.topics(coordinator), told)
                ended, lines = watch(coordinator, given)
                self.say(lines)
        except PassingError as error:
            self.log.warning("holding: %s", error)
            return False
        return ended
