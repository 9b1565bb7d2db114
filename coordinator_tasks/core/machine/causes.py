"""Causes: why a topic is held, what triggers a plan, and how long a plan waits until membership has settled."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from coordinator_tasks.core.machine import restarts, rollback, split
from coordinator_tasks.core.machine.draft import Draft, by_consumer, configured
from coordinator_tasks.core.machine.presence import absent_until, presence
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import Cause, CauseKind, Draining, MoveKind, State, TopicNode, TopicState
from coordinator_tasks.core.text import cause_text
from coordinator_tasks.core.text.partition_text import joined, noun, shown

REMOVED = "the topic was removed, and nobody runs anything of it"
SETTLED = "every partition is where it should be"


@dataclass(frozen=True, slots=True)
class Due:
    """A plan is due. `events_at`: times of the membership events that caused it; empty if the plan need not wait for
    membership to settle.

    `joined`, `left`: the consumers of these events.
    """

    causes: tuple[Cause, ...]
    events_at: tuple[float, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return cause_text.said(self.causes)


_CONFIGURED = Cause(CauseKind.CONFIGURED)


def hold(view: TopicView) -> str:
    """Return why the topic must not change; empty without a hold."""
    config = view.config
    if config.removed:
        return ""
    if view.missing:
        return (
            f"topic {view.topic} is no longer in Kafka: remove it here as well, or recreate it, and then remove it"
            " here and add it again"
        )
    found = view.description
    if found is not None and found.topic_id != config.topic_id:
        return "; ".join(recreated(view.topic, found.topic_id, config.topic_id))
    return ""


def recreated(topic: str, found: str, managed: str) -> tuple[str, str]:
    """Return problem and remedy if the topic's id is `found` in Kafka but `managed` in ZooKeeper."""
    says = f"topic {topic} was recreated in Kafka (id {found}, managed is {managed}): offsets of the old one mean nothing for it"
    return says, "remove it here and add it again"


def digest(view: TopicView, world: World, able: Mapping[str, int]) -> str:
    """Return 16 hexadecimal digits over all inputs of a plan, except the incarnations of the targets."""
    config = view.config
    counted = {c: world.members[c] for c in able} | restarts.away(view, world)
    members = {
        c: [counted[c].capacity, counted[c].rack, sorted(counted[c].attributes.items())]
        for c in sorted(counted if not config.frozen else ())
    }
    parts: list[object] = [
        config.strategy,
        sorted(config.parameters.items()),
        sorted(config.pins.items()),
        sorted(config.paused),
        sorted(config.properties.items()),
        [config.bootstrap_servers, config.group_id, config.topic_id, config.start, config.initial_partitions],
        [config.frozen, config.removed],
        len(view.partitions),
        members,
    ]
    if held := sorted([c, restart.at] for c, restart in restarts.back(able, world).items() if restart.moves):
        parts.append(held)  # when the restart expires, the digest changes and the strategy decides again
    if config.rollback is not None:  # without a roll back, the digest equals the digest of earlier releases
        parts.append([config.rollback.rebalance, config.rollback.at, sorted(config.rollback.assignments.items())])
    if config.split is not None:
        parts.append([config.split.app, sorted(config.split.consumers), sorted(config.split.partitions)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def of_placement(view: TopicView, world: World, draft: Draft, lost: Collection[str]) -> tuple[Cause, ...]:
    """Return the causes of an immediate placement: lost owners, vanished partitions, or partitions without an owner."""
    if lost:
        return cause_text.kept(_of_loss(consumer, view, world) for consumer in sorted(lost))
    if view.node is not None and view.node.topic_id != view.config.topic_id:
        return (Cause(CauseKind.RECREATED, (view.config.topic_id, view.node.topic_id)),)
    vanished = tuple(m.partition for m in draft.moves if m.kind is MoveKind.STOP)
    if vanished:
        return (Cause(CauseKind.VANISHED, partitions=vanished),)
    state = view.state
    if state is not None and state.targets:
        return (Cause(CauseKind.UNOWNED, partitions=tuple(m.partition for m in draft.moves)),)
    return (Cause(CauseKind.TAKERS, tuple(sorted({m.taker for m in draft.moves}))),)


def _of_loss(consumer: str, view: TopicView, world: World) -> Cause:
    # Read the lost incarnation from the stored node: the draft may already grant partitions to the successor.
    incarnation = view.node.incarnations.get(consumer, 0) if view.node is not None else 0
    life = world.life(consumer, incarnation)
    if life.isolation is not None:
        return Cause(CauseKind.ISOLATED, (consumer,), by=life.isolation.by, why=life.isolation.why)
    by, why = (life.restart.by, life.restart.why) if life.restart is not None else ("", "")
    return Cause(CauseKind.GONE, (consumer,), by=by, why=life.reason or why, ending=life.ending)


def of_plan(view: TopicView, world: World, draft: Draft, state: TopicState, able: Mapping[str, int]) -> Due | None:
    """Return the trigger of a new plan for all partitions; `None` if no plan is due."""
    node, config = view.node, view.config
    if node is None:
        return None
    if config.removed:
        held = bool(draft.assignments or draft.to_start or draft.handoff)
        return Due((Cause(CauseKind.REMOVED),)) if held or not node.removed else None
    current = digest(view, world, able)
    # Compare the node too: every transition writes the node with the current configuration, but keeps the digest of the
    # last plan.
    changed = (bool(state.planned) and current != state.planned) or configured(node) != configured(config)
    # A removed or recreated topic runs nowhere, so the plan does not wait for Stable.
    changed = changed or node.removed or node.topic_id != config.topic_id
    if config.frozen:
        return Due(_paused(view) or (_CONFIGURED,)) if changed else None
    new = sorted(c for c, i in able.items() if state.targets.get(c) != i)
    left = sorted(state.targets.keys() - able.keys() - restarts.away(view, world).keys() | _to_drain(world, draft))
    if new or left:
        joined_now = (Cause(CauseKind.JOINED, tuple(new)),) if new else ()
        found = (*joined_now, *cause_text.kept(_of_left(consumer, world) for consumer in left))
        return Due(found, _events(new, left, world), tuple(new), tuple(left))
    if changed:
        found = (*_paused(view), *_pinned(view, able), *_rolled_back(view, able), *_split(view))
        return Due(found or (Cause(CauseKind.CHANGED),))
    if not state.planned and state.state is State.STABLE and not draft.in_flight():
        before = (one for one in state.causes if one.kind is not CauseKind.CONTINUED)
        return Due((Cause(CauseKind.CONTINUED), *before))
    return None


def _to_drain(world: World, draft: Draft) -> set[str]:
    """Return the draining consumers with partitions. Unregistered consumers are left out."""
    lives = (world.life(c, i) for c, i in _owners(draft))
    return {life.consumer for life in lives if life.draining is not None and life.registered}


def reconfigured(view: TopicView) -> tuple[Cause, ...]:
    """Return the changes of configuration that the topic's node does not have yet and that need no plan."""
    node, config = view.node, view.config
    if node is None or config.removed or node.topic_id != config.topic_id or configured(node) == configured(config):
        return ()
    return _paused(view) or (_CONFIGURED,)


def _paused(view: TopicView) -> tuple[Cause, ...]:
    """Return the partitions paused or resumed since the node was written."""
    before, after = view.node.paused if view.node is not None else frozenset(), view.config.paused
    parts = [(CauseKind.PAUSED, after - before), (CauseKind.RESUMED, before - after)]
    return tuple(Cause(kind, partitions=tuple(sorted(partitions))) for kind, partitions in parts if partitions)


def _pinned(view: TopicView, able: Collection[str]) -> tuple[Cause, ...]:
    """Return the partitions pinned to a consumer other than the owner."""
    pins = {p: consumer for p, consumer in view.config.pins.items() if consumer in able}
    moving = by_consumer((consumer, p) for p, consumer in pins.items() if view.owners.get(p) != consumer)
    return cause_text.kept(Cause(CauseKind.PINNED, (consumer,), moved) for consumer, moved in moving.items())


def _rolled_back(view: TopicView, able: Collection[str]) -> tuple[Cause, ...]:
    """Return the roll back if it has to move partitions."""
    wanted = view.config.rollback
    if wanted is None:
        return ()
    held = {p: consumer for p, consumer in wanted.assignments.items() if consumer in able}
    return () if held.items() <= view.owners.items() else (rollback.cause(wanted),)


def _split(view: TopicView) -> tuple[Cause, ...]:
    """Return the upgrade's split if an owner is on the wrong side."""
    wanted, owners = view.config.split, view.owners
    if wanted is None or all((owner in wanted.consumers) == (p in wanted.partitions) for p, owner in owners.items()):
        return ()
    return (split.cause(wanted),)


def _of_left(consumer: str, world: World) -> Cause:
    draining = _draining(consumer, world)
    if draining is None:
        return Cause(CauseKind.DROPPED, (consumer,))
    return Cause(CauseKind.DRAINING, (consumer,), by=draining.by, why=draining.why)


def _draining(consumer: str, world: World) -> Draining | None:
    """Return the consumer's draining, of any incarnation. A planned restart with `moves` counts as draining."""
    directive, member = world.directives.get(consumer), world.members.get(consumer)
    if directive is None or directive.draining is not None or member is None:
        return directive.draining if directive is not None else None
    return world.life(consumer, member.incarnation).draining


def _events(new: list[str], left: list[str], world: World) -> tuple[float, ...]:
    times = [world.members[c].registered_at for c in new if c in world.members]
    for consumer in left:
        draining, claim = _draining(consumer, world), world.claims.get(consumer)
        if draining is not None:
            times.append(draining.at)
        elif claim is not None and claim.absence is not None:
            times.append(claim.absence.since_at)
    return tuple(times)


def settling(due: Due, world: World, policy: Policy) -> float:
    """Return seconds until the plan may run: once the last event is `settle_s` old, or the first is `settle_max_s` old.

    An event more than `settle_max_s` in the future is from another clock. Its age is unknown: the plan does not wait.
    """
    events_at = [at for at in due.events_at if at - world.now <= policy.settle_max_s]
    if not events_at:
        return 0.0
    still = max(events_at) + policy.settle_s - world.now
    at_most = min(events_at) + policy.settle_max_s - world.now
    return max(0.0, min(still, at_most, policy.settle_max_s))


def absences(node: TopicNode, world: World, policy: Policy) -> str:
    """Return, in words, the absent owners and when the wait for each owner ends; empty if no owner is absent."""
    reasons = [(consumer, absence(consumer, incarnation, world, policy)) for consumer, incarnation in _owners(node)]
    return joined(f"{consumer}'s {text}" for consumer, text in reasons if text)


def absent_for(node: TopicNode, world: World, policy: Policy, session_timeout_s: float) -> float | None:
    """Return seconds until an absent owner first loses its partitions automatically; `None` if none will."""
    absent = [(c, i) for c, i in _owners(node) if presence(c, i, world, policy) is Presence.ABSENT]
    until = min((absent_until(c, i, world, policy, session_timeout_s) for c, i in absent), default=inf)
    return max(0.0, until - world.now) if until < inf else None


def _owners(of: TopicNode | Draft) -> list[tuple[str, int]]:
    """Return the owners with their incarnations, sorted."""
    return sorted({(c, of.incarnations.get(c, 0)) for c in of.assignments.values()})


def homeless(partitions: Collection[int], unowned: list[int]) -> str:
    """Return, in words, the partitions that no live consumer may take; empty if there are none."""
    if not unowned:
        return ""
    which = "partitions" if len(unowned) == len(partitions) else f"{noun(unowned)} {shown(unowned)}"
    return f"no live consumer is there to take {which}"


def undrained(view: TopicView, world: World, draft: Draft) -> str:
    """Return, in words, the draining consumers that keep partitions, with the reason; empty if there are none."""
    why = "the topic is frozen" if view.config.frozen else "no other consumer is there that may take them"
    unknown = {*world.doubted, *world.unclear}
    owned = by_consumer((c, p) for p, c in draft.assignments.items())
    reasons = {c: "what it runs is not known" if c in unknown else why for c in sorted(_to_drain(world, draft))}
    return joined(f"{c} drains and keeps {cause_text.listed(owned[c])}: {reason}" for c, reason in reasons.items())


def absence(consumer: str, incarnation: int, world: World, policy: Policy) -> str:
    """Return, in words, why the partitions of an absent incarnation wait; empty if the incarnation is not absent."""
    if presence(consumer, incarnation, world, policy) is not Presence.ABSENT:
        return ""
    life = world.life(consumer, incarnation)
    restart = life.restart
    if restart is not None and life.kept_until:
        return f"incarnation {incarnation} is away: its partitions wait for it, {restarts.said(restart)}"
    if life.ending is not None:
        wait = f"{policy.rejoin_grace_s:g} s for a process with the same id"
        return f"incarnation {incarnation} is over: its partitions wait {wait}"
    silent = f"it has been silent for {policy.absent_after_s:g} s and is isolated"
    until = "a person isolates it" if policy.hold_absent else silent
    text = f"incarnation {incarnation} is absent: it keeps its partitions until its end is known, or {until}"
    return text if life.member is None else f"{text}; incarnation {life.member.incarnation} gets nothing before"
