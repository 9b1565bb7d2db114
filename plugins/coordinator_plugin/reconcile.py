"""The work of `reconcile`, every minute. Correctness relies on this work and not on events, which may get lost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator_plugin.stats import pauses_told
from coordinator_plugin.stuck_topics import (
    StuckTopic,
    in_turn,
    questions,
    questions_of_audit,
    questions_of_flapping,
    questions_of_unowned,
)
from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.world import TopicView
from coordinator_tasks.core.text.partition_text import agreed, by_reason, counted
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import idle_consumers
from coordinator_tasks.service.nodes import fleet, growth_store
from coordinator_tasks.service.nodes.cluster import ClusterObservation, observe_cluster
from coordinator_tasks.service.plan import plans_to_approve, transitions
from coordinator_tasks.service.plan.plans_to_approve import ASK_AGAIN_S
from coordinator_tasks.service.run import upkeep
from coordinator_tasks.service.watch import audit, lag_moments, overview
from coordinator_tasks.service.watch.audit import Audit

MAX_TOLD = 50
MOST_BESIDE = 1
"""Maximum active runs of `rebalance` beside which one more run is started for work that is due now.

Two runs at once have the effect of one. An active run may stand still, because its worker was killed, or because its
logical date is in the future.
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a reconciliation.

    `due`: topics with due work. `writable`: one of these topics has a step that can be written now. `missing`,
    `fleets`: consumers to launch, and their fleets. `questions`: topics that need a person. `approvals`: arguments of
    the runs that ask for the approval of a plan. `lines`: for the log.
    `audited`: the ownership audit. `growing`: fleets with limits of growth. `seen`: the observation behind the
    findings.
    """

    due: tuple[str, ...] = ()
    writable: bool = False
    missing: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    questions: tuple[StuckTopic, ...] = ()
    approvals: tuple[dict[str, Any], ...] = ()
    lines: list[str] = field(default_factory=list)
    audited: Audit = field(default_factory=Audit)
    growing: tuple[str, ...] = ()
    seen: ClusterObservation | None = None


def reconcile(c: Coordinator) -> Findings:
    """Do the upkeep, and find the due work.

    An unreadable part is logged, and does not stop the rest. Raises the `Unavailable` errors.
    """
    kept = upkeep.upkeep(c, transitions.topics(c), told=pauses_told(c.paths.cluster))
    lines = list(kept.lines)
    seen = observe_cluster(c)  # after the upkeep's last write, because all further decisions rely on this observation
    managed = seen.topics.managed
    unowned = overview.unowned_of(c, [_without(view, kept.created) for view in seen.views.values()], seen.before)
    needs = transitions.due(c, managed, seen)
    due, writable = tuple(needs), any(need.outcome is TopicOutcome.WRITTEN for need in needs.values())
    lines.extend(f"{topic} is due" for topic in due)
    lines += lag_moments.keep(c, managed, seen)
    lines += idle_consumers.give_up(c, managed)
    missing, fleets, said = _missing(c)
    lines.extend(said)
    growing, said = _growing(c)
    lines.extend(said)
    for topic, partitions in unowned.items():
        lines.extend(f"{topic}: nobody reads {said}: {why}" for why, said in by_reason(partitions))
    flapping = tuple(one for one in questions_of_flapping(c, managed) if one.topic not in unowned)
    lines.extend(f"{one.topic} flaps: {one.sentence}" for one in flapping)
    audited = audit.audit(c, always=False, seen=seen)
    lines += _told(audited)
    found = (  # the most severe first
        *questions_of_audit(c, audited),
        *questions_of_unowned(c, unowned),
        *questions(c, due),
        *flapping,
    )
    lines.extend(f"{one.topic} is held up by {one.consumer}: {one.sentence}" for one in found if one.consumer)
    now = c.clock.now()
    asked = in_turn(found, now)
    if more := len(found) - len(asked):
        lines.append(f"{counted(more, 'further question')} {agreed(more, 'waits for its', 'wait for their')} turn")
    waiting = [one for one in plans_to_approve.waiting(c, managed, seen).values() if not one.answered]
    lines.extend(f"{one.topic}: {one.why}" for one in waiting)
    day = int(now // ASK_AGAIN_S)
    approvals = [
        {
            "trigger_run_id": f"approve__{one.topic[:60]}__{one.digest}__{day}",
            "conf": {"topic": one.topic, "digest": one.digest},
        }
        for one in waiting
    ]
    return Findings(due, writable, missing, fleets, asked, in_turn(approvals, now), lines, audited, growing, seen)


def _without(view: TopicView, created: Mapping[str, tuple[int, ...]]) -> TopicView:
    """Return the topic without the partitions that the upkeep has just found in Kafka, since those have no plan yet."""
    fresh = set(created.get(view.topic, ()))
    return replace(view, partitions=tuple(p for p in view.partitions if p not in fresh)) if fresh else view


def _told(audited: Audit) -> list[str]:
    """Return the first of the audit's findings and unreadable parts.

    In a large cluster, an upgrade may cause a finding for each consumer.
    """
    told = [*(one.told for one in audited.findings), *audited.problems]
    more = len(told) - MAX_TOLD
    return told if more <= 0 else [*told[:MAX_TOLD], f"{counted(more, 'further finding')} of the audit: see `audit`"]


def _missing(c: Coordinator) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """Return the consumers to launch, their fleets, and lines for the log."""
    problems: list[str] = []
    try:
        launches = fleet.missing(c, problems)
    except NoAccess as error:
        return (), (), [f"nobody is launched: {error}"]
    missing, fleets = tuple(one.consumer for one in launches), tuple(sorted({one.app for one in launches}))
    return missing, fleets, [*problems, *(f"{consumer} is missing" for consumer in missing)]


def _growing(c: Coordinator) -> tuple[tuple[str, ...], list[str]]:
    """Return the fleets with limits of growth, and lines for the log."""
    try:
        return tuple(growth_store.growing(c)), []
    except NoAccess as error:
        return (), [f"no fleet grows: {error}"]


def runs(
    findings: Findings,
    dag_ids: Mapping[str, str],
    *,
    active_rebalances: int,
    active_autoscales: int = 0,
    launches: Iterable[dict[str, Any]] = (),
    under_way: Callable[[str, str], bool] = lambda _dag_id, _run_id: False,
) -> list[dict[str, Any]]:
    """Return the runs to start, as trigger arguments. An active run finds new work itself, unless it stands still.

    `dag_ids`: name → id of this cluster's DAGs. `active_rebalances`, `active_autoscales`: numbers of unfinished runs.
    `launches`: the runs of fleets. `under_way`: returns whether a run of this DAG and id has not ended.
    """
    found: list[dict[str, Any]] = []
    if findings.due and active_rebalances <= (MOST_BESIDE if findings.writable else 0):
        found.append({"trigger_dag_id": dag_ids["rebalance"], "trigger_run_id": None, "conf": {}})
    if findings.growing and not active_autoscales:
        found.append({"trigger_dag_id": dag_ids["autoscale"], "trigger_run_id": None, "conf": {}})
    found += launches
    asked = [{"trigger_dag_id": dag_ids["stuck_topic"], **question.plain()} for question in findings.questions]
    asked += [{"trigger_dag_id": dag_ids["approve_plan"], **one} for one in findings.approvals]
    return found + [one for one in asked if not under_way(one["trigger_dag_id"], _before(one["trigger_run_id"]))]


def _before(run_id: str) -> str:
    """Return the id of the run with the same question in the previous period, which may still be open.

    A run's id ends with the number of its period.
    """
    same, _, period = run_id.rpartition("__")
    return f"{same}__{int(period) - 1}"
