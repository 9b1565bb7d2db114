"""A plan beyond the site's budget waits until a person has approved exactly this plan. All other steps continue.

Steps of an operation that a person has started do not wait (`operations_under_way`).

The topic's configuration stores the approval, with a digest of the plan's inputs and moves. If inputs or moves change,
the digest changes, and the approval is void.
"""

import hashlib
import json
from dataclasses import replace

from coordinator_tasks.core.errors import UNREADABLE
from coordinator_tasks.core.machine.decision import Decision, TopicOutcome
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.measure.budget import counted_moves, why_over
from coordinator_tasks.core.measure.pause_prediction import LEARNED_RECORDS, PastMove, Prediction, learned, predict
from coordinator_tasks.core.model import Move, MoveKind, TopicConfig
from coordinator_tasks.core.text.partition_text import because
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.plan import operations_under_way


def held_for_approval(c: Coordinator, view: TopicView, world: World, decision: Decision) -> Decision:
    """Return the decision. If a person must approve, add `approval` (the digest) and a reason."""
    record = decision.record
    if not c.budget.is_set or not decision.may_wait or record is None or decision.outcome is not TopicOutcome.WRITTEN:
        return decision
    moves = counted_moves(record.moves, ending(world))
    over = why_over(c.budget, moves, len(view.partitions), _predicted(c, view.topic, moves), world.now)
    digest = digest_of(view, decision)
    said = _missing(view.config, digest) if over else ""
    if not said or operations_under_way.is_step(c, view, world, moves):
        return decision
    return replace(decision, reason=f"{decision.reason}; {'; '.join(over)}: {said}", approval=digest)


def digest_of(view: TopicView, decision: Decision) -> str:
    """Return sixteen hexadecimal digits over the moves and the inputs of a plan: epoch, configuration, members."""
    state, record, node = decision.state, decision.record, view.node
    moves = [[one.partition, one.giver, one.taker, one.kind] for one in record.moves] if record is not None else []
    inputs = [state.planned, sorted(state.targets.items())] if state is not None else []
    planned = [node.generation, node.epoch] if node else ["", 0]
    parts = [view.topic, *planned, len(view.partitions), inputs, moves]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _missing(config: TopicConfig, digest: str) -> str:
    """Return why the plan waits; empty if approved."""
    found = config.approval
    if found is None or found.digest != digest:
        return f"it waits for approval; `approve {config.topic} {digest}` gives it"
    if found.granted:
        return ""
    return f"{found.by} has rejected it{because(found.why)}; it waits until something changes"


def ending(world: World) -> frozenset[str]:
    """Return the consumers whose process is about to end. Their hand-offs must not wait, or each becomes a failure."""
    lives = (world.life(consumer, member.incarnation) for consumer, member in world.members.items())
    return frozenset(life.consumer for life in lives if life.leaving)


def earlier_moves(c: Coordinator, topic: str) -> tuple[PastMove, ...]:
    """Return the topic's earlier moves with a known pause, newest first; empty if its history is unreadable."""
    try:
        return learned(history.records(c, topic, LEARNED_RECORDS))
    except UNREADABLE:
        return ()


def _predicted(c: Coordinator, topic: str, moves: list[Move]) -> dict[MoveKind, Prediction | None]:
    if not c.budget.pause_s:
        return {}
    past = earlier_moves(c, topic)
    return {kind: predict(past, kind) for kind in {one.kind for one in moves}}
