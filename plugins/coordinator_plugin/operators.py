"""The transitions as Airflow tasks: small idempotent operators, each for a batch of topics.

Every operator reads ZooKeeper, and takes the cluster and the topics (all if empty) from the run's parameters. No task
relies on an earlier task. So each task can run again at any time, and then changes nothing.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.exceptions import AirflowSkipException

from coordinator_plugin.base_operators import ClusterOperator, TriggerRunOperator, actor_of
from coordinator_plugin.confirmation import ConfirmationWait, Patience, WaitKind
from coordinator_plugin.links import ClusterPageLink
from coordinator_plugin.report import lines, plain
from coordinator_plugin.stats import pauses_told, tell_reports
from coordinator_plugin.steps import LeftOver, continuation
from coordinator_plugin.triggers import POLL_S, ConfirmationTrigger
from coordinator_tasks.core.errors import Unavailable
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import State
from coordinator_tasks.core.names import check_topic
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.store import not_managed
from coordinator_tasks.service.plan import pauses, transitions
from coordinator_tasks.service.run import upkeep

WAIT_LIMIT_S = 60.0
LOOK_S = 1.5
MEASURE_S = 2.0
SOON_S = 60.0
MOST_LATER = 2
"""Maximum queued runs for times later than `SOON_S`.

Airflow counts queued runs as active. If `max_active_runs` runs are queued, no event wakes the DAG.
"""
LEFT = "left"
"""Key in the extra of events, for the digest of left-over work."""


def topics_of(context: Context) -> tuple[str, ...]:
    """Return the run's topics; empty means all."""
    return tuple(context["params"].get("topics") or ())


def check_topics(c: Coordinator, context: Context) -> None:
    """Raise `InvalidName` or `NotManaged` for a topic that a person names.

    A topic of a further run is not checked, because it may have been removed since.
    """
    named = topics_of(context)
    if not named or context["dag_run"].run_type != "manual":
        return
    known = transitions.topics(c)
    for topic in named:
        if check_topic(topic) not in known:
            raise not_managed(c.zk, c.paths, topic)


class TransitionOperator(ClusterOperator):
    """Applies a transition to every due topic of the run, and reports per topic."""

    step: Callable[..., "list[transitions.TopicReport]"]

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Run the transition. The reports go to the log and, as plain data, to XCom."""
        with self.coordinator() as coordinator:
            named = topics_of(context) or transitions.topics(coordinator)
            reports = type(self).step(coordinator, named, actor_of(context))
            self.say_reports(reports)
            tell_reports(coordinator.paths.cluster, reports)
            self.completed(coordinator, reports)
        return [plain(report) for report in reports]

    def say_reports(self, reports: "Iterable[transitions.TopicReport]") -> None:
        """Log the reports, with topic, epoch and rebalance as fields of each line."""
        for one in reports:
            with about(**one.fields):
                self.say(lines([one]))

    def completed(self, coordinator: Coordinator, reports: "Sequence[transitions.TopicReport]") -> None:
        """Do further work after the transition; empty here."""


class PlanOperator(TransitionOperator, SkipMixin):
    """Plans, and begins the plan.

    Skips the tasks that have no work: `closing_steps` if no partition closes; without any work, all further tasks
    except `last_step`, which checks for work that is due later.

    A dry run shows the plan, writes nothing and ends. If a person names an unmanaged topic, nothing is planned.
    """

    step = staticmethod(transitions.plan)
    operator_extra_links = (ClusterPageLink(),)

    def __init__(self, *, closing_steps: Sequence[str] = (), last_step: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.closing_steps = tuple(closing_steps)
        self.last_step = last_step

    def execute(self, context: Context) -> list[dict[str, Any]]:
        with self.coordinator() as coordinator:
            check_topics(coordinator, context)
            named = topics_of(context) or transitions.topics(coordinator)
            if context["params"].get("dry_run", False):
                self.log.info("dry run: nothing is written")
                reports = transitions.preview(coordinator, named)
                idle = self.get_flat_relative_ids(upstream=False)
            else:
                self.say(upkeep.readmit(coordinator))  # a readmission may be the event that started this run
                reports = transitions.plan(coordinator, named, actor_of(context))
                tell_reports(coordinator.paths.cluster, reports)
                idle = self._idle(coordinator, named, reports)
            self.say_reports(reports)
        told = [plain(report) for report in reports]
        if idle:
            self.log.info("nothing to do for %s", shown(sorted(idle)))
            # Skipping raises an exception that ends the task, so push the result first.
            context["ti"].xcom_push(key="return_value", value=told)
            self.skip(context["ti"], [self.dag.get_task(task_id) for task_id in sorted(idle)])
        return told

    def _idle(
        self, coordinator: Coordinator, named: Sequence[str], reports: Sequence[transitions.TopicReport]
    ) -> set[str]:
        states = {report.after for report in reports}
        if State.CLOSING in states:
            return set()
        if State.STARTING in states:
            return set(self.closing_steps)
        waiting = bool(named and transitions.due(coordinator, named))
        return set(self.get_flat_relative_ids(upstream=False)) - ({self.last_step} if waiting else set())


class StartOperator(TransitionOperator):
    """Closing → Starting, for all topics whose closes are confirmed."""

    step = staticmethod(transitions.start)


class SettleOperator(TransitionOperator):
    """Starting → Stable, for all topics whose starts are confirmed."""

    step = staticmethod(transitions.settle)

    def completed(self, coordinator: Coordinator, reports: Sequence[transitions.TopicReport]) -> None:
        """Measure the pauses when the first records have passed. `reconcile` completes late measurements."""
        ended = [one.topic for one in reports if one.outcome is TopicOutcome.WRITTEN and one.after is State.STABLE]
        try:
            left = pauses.complete_within(coordinator, ended, MEASURE_S, pauses_told(coordinator.paths.cluster))
        except Unavailable as error:
            self.log.warning("the pauses are not measured yet: %s", error)
            return
        for topic in left:
            self.log.info("the pauses of %s are not all measured yet", topic)


class ConfirmationOperator(ClusterOperator):
    """Waits for confirmations. The result is `written`, `unchanged`, `overtaken` or `stuck`, and none is a failure.

    A wait in the triggerer takes 2.0 to 2.7 s even with nothing to wait for, because two of Airflow's loops run once a
    second; a hand-off takes tenths of a second. So the task waits on a worker for up to `LOOK_S`. A longer wait
    continues in the triggerer, without a worker.
    """

    kind: WaitKind

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait for a short time, then defer to the triggerer."""
        topics = topics_of(context)
        with self.coordinator() as coordinator:
            began_s = time.monotonic()
            wait = ConfirmationWait(self.kind, topics, Patience(began_s, WAIT_LIMIT_S), self.log.info)
            while (outcome := wait.poll(coordinator)) is None and time.monotonic() - began_s < LOOK_S:
                time.sleep(POLL_S / 3)
        if outcome is None:
            self.log.info("the wait continues in the triggerer, for at most %g s", WAIT_LIMIT_S)
            trigger = ConfirmationTrigger(self.cluster, str(self.kind), json.dumps(topics), WAIT_LIMIT_S)
            self.end_in_triggerer(trigger, WAIT_LIMIT_S)
        self.log.info("%s after %.1f s", outcome.outcome, outcome.waited_s)
        return outcome.plain()


class ConfirmClosedOperator(ConfirmationOperator):
    """Waits until the consumers' status interfaces confirm every close."""

    kind = WaitKind.CLOSED


class ConfirmStartedOperator(ConfirmationOperator):
    """Waits until the consumers' status interfaces confirm every start."""

    kind = WaitKind.STARTED


class ContinueOperator(ClusterOperator, TriggerRunOperator):
    """Starts a further run for the work that this run leaves over, under the same rebalance id (kept in ZooKeeper).

    If the work is due now, an event of the asset `changes` wakes the DAG, as ZooKeeper's watcher does. Airflow makes
    one run of all waiting events. The event has a digest of the work, which prevents duplicates:

    - Another run has left the same work since this run began: the run woken by that event continues, and this run ends.
      Otherwise each change during a wait would start another chain of runs, up to the DAG's limit, and further changes
      would have to wait for the chains' ends.
    - This run was woken for the same work, and leaves it although it can be written: the further run comes after a
      pause. Otherwise a plan that ZooKeeper refuses would be retried without a pause.

    If the work is due later (an owner is absent), this task triggers a run for that time. The run's id names the work
    and the time, and Airflow makes one run per id. If `MOST_LATER` runs are queued, work that is due later than
    `SOON_S` is left to `reconcile`. Why not trigger all further runs? When a triggered run ends, Airflow (3.3) does not
    check whether the DAG is below its `max_active_runs` again, so events would wake no run until the DAG is parsed
    again.
    """

    def __init__(self, *, changes: Asset, **kwargs: Any) -> None:
        # An asset in the outlets would get an event with every success. An alias gets an event only if one is added.
        self.left_over = AssetAlias(f"{changes.name}_left_over")
        told = [self.left_over]
        super().__init__(inlets=told, outlets=told, **kwargs)
        self.changes = changes

    def execute(self, context: Context) -> None:
        """Wake the DAG, trigger a run for a later time, or skip if no work is left over."""
        topics = topics_of(context)
        with self.coordinator() as coordinator:
            left = continuation(coordinator, topics)
        if not left.topics:
            raise AirflowSkipException("nothing is left over")
        self.log.info("left over: %s", shown(left.topics))
        woken_by = _tellers(context["triggering_asset_events"].get(self.left_over, ()), left)
        if left.now and not (left.writable and woken_by):
            began_at = context["dag_run"].start_date or context["dag_run"].run_after
            if _tellers(context["inlet_events"][self.left_over].after(began_at.isoformat()), left) - woken_by:
                raise AirflowSkipException("another run continues with it")
            context["outlet_events"][self.left_over].add(self.changes, extra={LEFT: left.digest})
            return
        if left.pause_s > SOON_S and context["ti"].get_dr_count(self.trigger_dag_id, states=["queued"]) >= MOST_LATER:
            raise AirflowSkipException("enough runs are queued for later: reconcile continues within a minute")
        self.run_after = datetime.now(UTC) + timedelta(seconds=left.pause_s)
        self.trigger_run_id = f"further__{left.digest}__{self.run_after:%Y%m%dT%H%M%S}"
        self.conf = {"topics": list(topics)}
        super().execute(context)


def _tellers(events: Iterable[Any], left: LeftOver) -> set[str]:
    """Return the ids of the runs whose asset events announced the same left-over work."""
    return {event.source_run_id for event in events if (event.extra or {}).get(LEFT) == left.digest}
