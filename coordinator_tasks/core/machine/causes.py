"""Why something is done or not done: holds, triggers of a plan and their sentences, and how long a plan settles."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from coordinator_tasks.core.machine import restarts, rollback, split
from coordinator_tasks.core.machine.draft import Draft, by_consumer, configured
from coordinator_tasks.core.machine.presence import absent_until, presence
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import Draining, MoveKind, State, TopicNode, TopicState
from coordinator_tasks.core.text.partition_text import because, joined, noun, shown

CHANGED = "consumers, their attributes, partitions or the configuration changed"
REMOVED = "the topic was removed, and nobody runs anything of it"


@dataclass(frozen=True, slots=True)
class Due:
    """A plan is due. `events_at` are the times of the membership events behind it; empty = it need not settle.

    `joined`, `left`: the consumers of these events.
    """

    text: str
    events_at: tuple[float, ...] = ()
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def hold(view: TopicView) -> str:
    """Why nothing may be done with the topic, or an empty text."""
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
        return recreated(view.topic, found.topic_id, config.topic_id)
    return ""


def recreated(topic: str, found: str, managed: str) -> str:
    """That Kafka has the topic under another id (`found`) than the stored one, and what to do."""
    return (
        f"topic {topic} was recreated in Kafka (id {found}, managed is {managed}): offsets"
        " of the old one mean nothing for it; remove it here and add it again"
    )


def digest(view: TopicView, world: World, able: Mapping[str, int]) -> str:
    """Sixteen hexadecimal digits over everything a plan is made from, apart from who the targets are."""
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
    if held := sorted([c, one.at] for c, one in restarts.back(able, world).items() if one.moves):
        parts.append(held)  # when it runs out, the strategy decides again
    if config.rollback is not None:  # without one, the digest is that of earlier releases
        parts.append([config.rollback.rebalance, config.rollback.at, sorted(config.rollback.assignments.items())])
    if config.split is not None:
        parts.append([config.split.app, sorted(config.split.consumers), sorted(config.split.partitions)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def of_placement(view: TopicView, world: World, draft: Draft, lost: Collection[str]) -> str:
    """The cause of what is not put off to a plan: owners that are lost, partitions that are, or that have no owner."""
    if lost:
        return joined(_of_loss(consumer, view, world) for consumer in sorted(lost))
    if view.node is not None and view.node.topic_id != view.config.topic_id:
        return f"the topic was recreated in Kafka: id {view.config.topic_id}, was {view.node.topic_id}"
    vanished = [m.partition for m in draft.moves if m.kind is MoveKind.STOP]
    if vanished:
        return f"no longer in Kafka: {listed(vanished)}"
    state = view.state
    if state is not None and state.targets:
        unowned = [m.partition for m in draft.moves]
        return f"{noun(unowned)} without an owner: {shown(unowned)}"
    return f"consumers to take partitions: {shown(sorted({m.taker for m in draft.moves}))}"


def _of_loss(consumer: str, view: TopicView, world: World) -> str:
    # The one that is lost: the draft may grant something to its successor already.
    incarnation = view.node.incarnations.get(consumer, 0) if view.node is not None else 0
    life = world.life(consumer, incarnation)
    if life.isolation is not None:
        return f"isolated: {consumer} (by {life.isolation.by}{because(life.isolation.why)})"
    how = life.ending.value if life.ending is not None else "unknown"
    planned = f", restart planned by {life.restart.by}" if life.restart is not None else ""
    return f"gone: {consumer} ({how}{planned}{because(life.reason or (life.restart.why if life.restart else ''))})"


def of_plan(view: TopicView, world: World, draft: Draft, state: TopicState, able: Mapping[str, int]) -> Due | None:
    """What asks for a new plan for everybody, or `None`."""
    node, config = view.node, view.config
    if node is None:
        return None
    if config.removed:
        held = bool(draft.assignments or draft.to_start or draft.handoff)
        return Due("the topic was removed from the coordinator") if held or not node.removed else None
    current = digest(view, world, able)
    # Every transition writes the node with the configuration of its moment, the plan's digest stays that of the plan.
    changed = (bool(state.planned) and current != state.planned) or configured(node) != configured(config)
    # A removed or recreated topic runs nowhere, so do not wait for Stable.
    changed = changed or node.removed or node.topic_id != config.topic_id
    if config.frozen:
        return Due(_paused(view) or "configuration changed") if changed else None
    new = sorted(c for c, i in able.items() if state.targets.get(c) != i)
    left = sorted(state.targets.keys() - able.keys() - restarts.away(view, world).keys() | _to_drain(world, draft))
    if new or left:
        return Due(_membership(new, left, world), _events(new, left, world), tuple(new), tuple(left))
    if changed:
        told = "; ".join(filter(None, (_paused(view), _pinned(view, able), _rolled_back(view, able), _split(view))))
        return Due(told or CHANGED)
    if not state.planned and state.state is State.STABLE and not draft.in_flight():
        return Due(f"goes on: {state.cause.removeprefix('goes on: ')}")
    return None


def _to_drain(world: World, draft: Draft) -> set[str]:
    """Who drains and owns something: it may have been absent when everybody else was planned, and has kept it since."""
    lives = (world.life(c, i) for c, i in _owners(draft))
    return {life.consumer for life in lives if life.draining is not None and life.registered}


def reconfigured(view: TopicView) -> str:
    """What of the topic's configuration consumers have not been told yet, and no plan is needed for; an empty text = nothing."""
    node, config = view.node, view.config
    if node is None or config.removed or node.topic_id != config.topic_id or configured(node) == configured(config):
        return ""
    return _paused(view) or "configuration changed"


def _paused(view: TopicView) -> str:
    """What a person has paused or resumed since the node was written, or an empty text."""
    before, after = view.node.paused if view.node is not None else frozenset(), view.config.paused
    parts = [("paused", sorted(after - before)), ("resumed", sorted(before - after))]
    return "; ".join(f"{what}: {listed(which)}" for what, which in parts if which)


def _pinned(view: TopicView, able: Collection[str]) -> str:
    """Which partitions a person has pinned to somebody who does not own them yet, or an empty text."""
    owners = view.node.assignments if view.node is not None else {}
    moving = by_consumer((who, p) for p, who in view.config.pins.items() if who in able and owners.get(p) != who)
    return joined(f"pinned to {consumer}: {listed(which)}" for consumer, which in moving.items())


def _rolled_back(view: TopicView, able: Collection[str]) -> str:
    """Which roll back moves something, who asked for it and why, or an empty text."""
    wanted, owners = view.config.rollback, view.node.assignments if view.node is not None else {}
    if wanted is None or all(owners.get(p) == who for p, who in wanted.assignments.items() if who in able):
        return ""
    return rollback.said(wanted)


def _split(view: TopicView) -> str:
    """The split that an upgrade asks for, if an owner is on the wrong side of it, or an empty text."""
    wanted, owners = view.config.split, view.node.assignments if view.node is not None else {}
    if wanted is None or all((who in wanted.consumers) == (p in wanted.partitions) for p, who in owners.items()):
        return ""
    return split.said(wanted)


def _membership(new: list[str], left: list[str], world: World) -> str:
    parts = []
    for consumer in left:
        draining = _draining(consumer, world)
        if draining is not None:
            parts.append(f"draining: {consumer} (by {draining.by}{because(draining.why)})")
        else:
            parts.append(f"no longer a target: {consumer}")
    return "; ".join(filter(None, [f"joined: {shown(new)}" if new else "", joined(parts)]))


def _draining(consumer: str, world: World) -> Draining | None:
    """The draining of this consumer, whatever its incarnation; a planned restart for which it gives everything away is one."""
    directive, member = world.directives.get(consumer), world.members.get(consumer)
    if directive is None or directive.draining is not None or member is None:
        return directive.draining if directive is not None else None
    return world.life(consumer, member.incarnation).draining


def _events(new: list[str], left: list[str], world: World) -> tuple[float, ...]:
    found = [world.members[c].registered_at for c in new if c in world.members]
    for consumer in left:
        draining, claim = _draining(consumer, world), world.claims.get(consumer)
        if draining is not None:
            found.append(draining.at)
        elif claim is not None and claim.absence is not None:
            found.append(claim.absence.since_at)
    return tuple(found)


def settling(due: Due, world: World, policy: Policy) -> float:
    """Seconds that the plan still waits: until the last event is `settle_s` old, at most `settle_max_s` from the first.

    An event that lies further ahead than that is another clock's: how old it is cannot be known, nothing waits for it.
    """
    events_at = [at for at in due.events_at if at - world.now <= policy.settle_max_s]
    if not events_at:
        return 0.0
    still = max(events_at) + policy.settle_s - world.now
    at_most = min(events_at) + policy.settle_max_s - world.now
    return max(0.0, min(still, at_most, policy.settle_max_s))


def absences(node: TopicNode, world: World, policy: Policy) -> str:
    """Which owners are absent, and what ends the wait for them; an empty text = none is."""
    found = [(consumer, absence(consumer, incarnation, world, policy)) for consumer, incarnation in _owners(node)]
    return joined(f"{consumer}'s {text}" for consumer, text in found if text)


def absent_for(node: TopicNode, world: World, policy: Policy, session_timeout_s: float) -> float | None:
    """Seconds until the first absent owner's partitions go to others without anybody's word; `None` = nobody's do."""
    absent = [(c, i) for c, i in _owners(node) if presence(c, i, world, policy) is Presence.ABSENT]
    until = min((absent_until(c, i, world, policy, session_timeout_s) for c, i in absent), default=inf)
    return max(0.0, until - world.now) if until < inf else None


def _owners(of: TopicNode | Draft) -> list[tuple[str, int]]:
    """Who owns something, each with its incarnation, sorted."""
    return sorted({(c, of.incarnations.get(c, 0)) for c in of.assignments.values()})


def homeless(partitions: Collection[int], unowned: list[int]) -> str:
    """Which partitions nobody can be given while no live consumer may have them; an empty text = none."""
    if not unowned:
        return ""
    which = "partitions" if len(unowned) == len(partitions) else f"{noun(unowned)} {shown(unowned)}"
    return f"no live consumer is there to take {which}"


def undrained(view: TopicView, world: World, draft: Draft) -> str:
    """Which consumers drain and keep what they own, and why; an empty text = none does."""
    why = "the topic is frozen" if view.config.frozen else "no other consumer is there that may take them"
    unknown = {*world.doubted, *world.unclear}
    kept = {
        c: sorted(p for p, owner in draft.assignments.items() if owner == c) for c in sorted(_to_drain(world, draft))
    }
    reasons = {c: "what it runs is not known" if c in unknown else why for c in kept}
    return joined(f"{c} drains and keeps {listed(kept[c])}: {reasons[c]}" for c in kept)


def absence(consumer: str, incarnation: int, world: World, policy: Policy) -> str:
    """What this incarnation is waited for if it is absent, in a sentence; an empty text = it is not."""
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


def listed(partitions: Sequence[int]) -> str:
    """`partition 7`, `partitions 0, 1 and 2 more`: cut after ten."""
    return f"{noun(partitions)} {shown(partitions)}"
