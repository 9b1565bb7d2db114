"""The state machine of a topic.

Rules:
- Only the table changes a state (`table.TRANSITIONS`).
- `decide` is pure and total; the caller performs the decision as one guarded transaction.
- Decisions are level-triggered: stored and observed state decide, never the event that caused the run. The first match
  of this list decides: hold, recovery, lost owners and unowned partitions, confirmed closes, confirmed starts, a new
  plan, a restart.
- A confirmation is for an epoch, a generation and an incarnation (`confirm`).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine import causes, invariants, recovery
from coordinator_tasks.core.machine.deciding import Deciding
from coordinator_tasks.core.machine.decision import ALL_STEPS, Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.draft import draft_of
from coordinator_tasks.core.machine.presence import who_cannot_read
from coordinator_tasks.core.machine.question import PlanQuestion
from coordinator_tasks.core.machine.table import signal_of_plan
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import SEEK_STATE, SEEKS, Actor, Cause, CauseKind, Explanation, State, StateOnReset
from coordinator_tasks.core.text.cause_text import listed, of_one
from coordinator_tasks.core.text.json_fields import MAX_COUNT
from coordinator_tasks.core.text.partition_text import agreed, counted, first, joined, named


def decide(
    view: TopicView,
    world: World,
    policy: Policy,
    actor: Actor,
    steps: frozenset[Step] = ALL_STEPS,
    *,
    plans: bool = True,
) -> Decision:
    """Return the topic's next step. `plans`: False leaves out a plan that may wait for approval."""
    world = _believed(view, world, policy)
    decision = _decide(view, world, policy, actor, steps, plans)
    left_out = first((*world.doubted.values(), *recovery.outliers(view, world), *world.unclear.values()))
    reason = decision.reason if decision.outcome is TopicOutcome.WRITTEN else "; ".join([decision.reason, *left_out])
    return replace(decision, reason=reason, left_out=left_out) if left_out else decision


def _believed(view: TopicView, world: World, policy: Policy) -> World:
    return replace(world, doubted=recovery.doubted(view, world, policy))


def _why_held(view: TopicView) -> str:
    return causes.hold(view) or _contradiction(view) or _used_up(view)


def _decide(
    view: TopicView, world: World, policy: Policy, actor: Actor, steps: frozenset[Step], plans: bool
) -> Decision:
    held = _why_held(view)
    if held:
        return Decision(TopicOutcome.HELD, held)
    try:
        found = recovery.needed(view, world)
        if found is not None:
            return _recover(view, world, policy, actor, steps, found)
        return Deciding(view, world, policy, actor, plans=plans).run(steps)
    except Refused as error:
        return Decision(TopicOutcome.HELD, str(error))


def seek(
    view: TopicView,
    world: World,
    policy: Policy,
    actor: Actor,
    offsets: Mapping[int, int],
    plan: Explanation,
    state: StateOnReset | None = None,
) -> Decision:
    """Let these partitions continue at these offsets, for the reasons in `plan`, without any other plan.

    Return a decision to `WAIT` while a partition moves, an owner is lost or a recovery is needed. Hold if a partition has
    state and `state` is `None`.
    """
    held = _why_held(view)
    if held or view.config.removed or view.node is None:
        nothing = "removed" if view.config.removed else "not planned yet; plan it first"
        return Decision(TopicOutcome.HELD, held or f"topic {view.topic} is {nothing}")
    world = _believed(view, world, policy)
    deciding = Deciding(view, world, policy, actor)
    touched, _ = deciding.drop_lost()
    draft = deciding.draft
    moving = [p for p in sorted(offsets) if not draft.owners(p) <= {draft.assignments.get(p, "")}]
    if recovery.needed(view, world) is not None or touched or moving:
        which = (
            f"{listed(moving)} {agreed(len(moving), 'is', 'are')} being moved" if moving else "another plan goes first"
        )
        return Decision(TopicOutcome.WAITING, f"{which}; ask again when topic {view.topic} is Stable")
    older = who_cannot_read(SEEKS, view.topic, world.members, draft.holders())
    if not older and state is not None:
        older = who_cannot_read(SEEK_STATE, view.topic, world.members, draft.holders())
    if older:
        return Decision(TopicOutcome.HELD, older)
    unknown = sorted(offsets.keys() - set(view.partitions))
    if unknown:
        them = agreed(len(unknown), "it", "them")
        return Decision(
            TopicOutcome.HELD,
            f"{listed(unknown)} {agreed(len(unknown), 'is', 'are')} not in its list yet; `reconcile` or `run` finds {them} "
            "in Kafka within a minute: ask again then, or name other partitions",
        )
    if state is None and (undecided := _stateful(view.topic, world, draft.assignments, offsets)):
        return Decision(TopicOutcome.HELD, undecided)
    for partition, offset in sorted(offsets.items()):
        draft.seek(partition, offset, state)
    draft.kept = plan
    return deciding.write(signal_of_plan(draft), (Cause(CauseKind.TOLD, why=plan.summary),))


def _stateful(topic: str, world: World, assignments: Mapping[int, str], partitions: Collection[int]) -> str:
    """Return, in words, the partitions with state by the owners' answers, among these; empty without such partitions."""
    rows: dict[int, int] = {}
    for partition in partitions:
        running = world.running(assignments.get(partition, ""), topic, partition)
        if running is not None and running.state is not None and running.state.rows:
            rows[partition] = running.state.rows
    if not rows:
        return ""
    return (
        f"{named(sorted(rows))} {agreed(len(rows), 'has', 'have')} state ({counted(sum(rows.values()), 'row')}); say with "
        "--state, or in the form's field State, what happens to the state: keep (records that are read again are counted "
        "again) or reset (the state begins empty)"
    )


def explain(view: TopicView, world: World, policy: Policy) -> Explanation:
    """Return why each partition is at its owner, and how the strategy would move partitions now. Raises `Refused`."""
    world = _believed(view, world, policy)
    deciding = Deciding(view, world, policy, Actor("explain"))
    return deciding.planning(deciding.able()).why()


def question(
    view: TopicView, world: World, policy: Policy, *, always: bool = False
) -> tuple[Mapping[int, str], PlanQuestion | None]:
    """Return partition → owner or taker, and the question that `decide` would ask the strategy; `None` if all
    partitions stay.

    `always`: ask as if a plan were due, like `explain`.
    """
    world, held = _believed(view, world, policy), targets_of(view)
    if view.config.removed or (_why_held(view) and not always):
        return held, None
    try:
        recovered = recovery.needed(view, world)
        if recovered is None:
            return Deciding(view, world, policy, Actor("question")).question(always=always)
        deciding = Deciding(view, world, policy, Actor("question"), recovered.draft)
        deciding.drop_lost()
        return held, None if recovered.blockers else deciding.planning(deciding.able()).placement()
    except Refused:
        return held, None


def targets_of(view: TopicView) -> dict[int, str]:
    """Return partition → owner or taker; empty for a removed topic."""
    draft = draft_of(view, "")
    return {} if view.config.removed else draft.targets(view.partitions)


def able(view: TopicView, world: World, policy: Policy) -> dict[str, int]:
    """Return consumer → incarnation for the consumers that a plan would include now."""
    deciding = Deciding(view, _believed(view, world, policy), policy, Actor("able"))
    deciding.drop_lost()
    return deciding.able()


def _used_up(view: TopicView) -> str:
    """Return the problem if the next epoch would exceed the readable maximum; empty otherwise."""
    if view.node is None or view.node.epoch < MAX_COUNT:
        return ""
    return f"epoch {view.node.epoch} of topic {view.topic} is the largest there is, which no plan leads to: correct its node"


def _contradiction(view: TopicView) -> str:
    """Return a contradiction between node and state, which were written together; empty if there is none."""
    broken = invariants.of_topic(view.node, view.state) if view.node is not None and view.state is not None else []
    if not broken:
        return ""
    return (
        f"what is stored of topic {view.topic} breaks the rule that {broken[0]}: correct it, or remove its state node"
    )


def _recover(
    view: TopicView, world: World, policy: Policy, actor: Actor, steps: frozenset[Step], found: recovery.Recovery
) -> Decision:
    adopted, cause = bool(found.draft.holders()), of_one(found.cause)
    if found.blockers:
        return Decision(TopicOutcome.WAITING, f"{cause}; {joined(found.blockers.values())}", blockers=found.blockers)
    if view.config.removed and view.node is None and not adopted:
        return Decision(TopicOutcome.UNCHANGED, causes.REMOVED)
    if Step.PLAN not in steps:
        return Decision(TopicOutcome.WAITING, f"{cause}; a plan is due")
    deciding = Deciding(view, world, policy, actor, found.draft)
    deciding.drop_lost()
    able = deciding.able()
    deciding.planning(able).place()
    # A consumer acts only on a node that supersedes its own generation. Without such a node a consumer of an older
    # generation, even an isolated consumer, never confirms that nothing runs, and cannot be readmitted.
    if not deciding.draft.in_flight() and deciding.state.state is State.INITIAL:
        return Decision(TopicOutcome.WAITING, f"{cause}; no live consumer is there to take partitions")
    planned, signal = "" if adopted else causes.digest(view, world, able), signal_of_plan(deciding.draft)
    because = (found.cause,)
    return deciding.write(signal, because, targets=able, planned=planned, objectors=found.objectors, unasked=adopted)
