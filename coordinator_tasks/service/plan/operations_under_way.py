"""Operations that a person began and that continue in steps. Their plans need no approval, whatever the budget.

A person who begins an upgrade, a redeployment, a planned restart or automatic growth has approved its steps. A step
that waits would also delay the way back.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress

from coordinator_tasks.core.codecs.growth_codec import Growth
from coordinator_tasks.core.errors import UNREADABLE
from coordinator_tasks.core.fleet.growth import GrowthDecision, GrowthKind
from coordinator_tasks.core.fleet.upgrade import Upgrade
from coordinator_tasks.core.machine import restarts
from coordinator_tasks.core.machine.split import kept
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import DrainKind, DrainOwner, Fleet, Move
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes import growth_store, upgrade_store


def is_step(c: Coordinator, view: TopicView, world: World, moves: Sequence[Move]) -> bool:
    """Return whether a move is a step of such an operation. If one move is, the whole plan needs no approval."""
    found = fleets.fleets(c)
    growths = [one for one in growth_store.readable(c) if one.limits.act and _acted(one)]
    drained, started = _drained(c, world, found, growths), _started(view, world, found, growths)
    pinned = {
        (one.partition, one.taker)
        for growth in growths
        for decision in _acted(growth)
        for one in decision.moves
        if one.topic == view.topic and view.config.pins.get(one.partition) == one.taker
    }
    return any(
        (view.config.split is not None and not kept(view.config.split, {one.partition: one.giver}))
        or one.giver in drained
        or one.taker in started
        or (one.partition, one.taker) in pinned
        or _of_restart(view.topic, world, one)
        for one in moves
    )


def _drained(c: Coordinator, world: World, found: Collection[Fleet], growths: Collection[Growth]) -> set[str]:
    """Return the consumers drained by an unfinished upgrade, redeployment or growth."""
    asked = {who: one.draining.owner for who, one in world.directives.items() if one.draining is not None}
    owners = set(asked.values())
    present = {who: member.incarnation for who, member in world.members.items()}
    ends = {
        DrainOwner(DrainKind.REDEPLOYMENT, one.app): {p for p, i in one.replaced.items() if present.get(p, 0) <= i}
        for one in found
    }
    for growth in growths:
        leaves = {who for one in _acted(growth) for who in one.leaves}
        ends[DrainOwner(DrainKind.GROWTH, growth.app)] = leaves
        ends.setdefault(DrainOwner(DrainKind.GROWTH), set()).update(leaves)  # earlier versions do not name the fleet
    for app in {one.fleet for one in owners if one.kind is DrainKind.UPGRADE}:
        if (upgrade := _under_way(c, app)) is not None:
            ends[upgrade.owner] = {*upgrade.old_consumers, *upgrade.new_consumers}
    return {who for who, owner in asked.items() if who in ends.get(owner, ())}


def _under_way(c: Coordinator, app: str) -> Upgrade | None:
    with suppress(*UNREADABLE):  # the process that continues the upgrade reports the unreadable record
        found = upgrade_store.find(c, app)
        return None if found is None or found.over else found
    return None


def _started(view: TopicView, world: World, found: Collection[Fleet], growths: Collection[Growth]) -> set[str]:
    """Return the consumers that a redeployment or growth has started and that no complete plan has included yet."""
    state = view.state
    planned = state.targets if state is not None and state.planned else {}
    joined = {c: one.incarnation for c, one in world.members.items() if planned.get(c) != one.incarnation}
    started = {
        consumer
        for fleet in found
        for consumer, old in fleet.replaced.items()
        if joined.get(consumer, 0) > old
        and consumer in world.claims
        and not any(one > old for one in world.claims[consumer].ended)
    }
    for growth in growths:
        last, limits = _acted(growth)[-1], growth.limits
        judged_s = 2 * (limits.start_up_s + limits.window_s)
        if last.kind is GrowthKind.GROW and world.now - last.at < judged_s:
            started |= {consumer for one in found if one.app == growth.app for consumer in one.consumers}
    return started & joined.keys()


def _acted(growth: Growth) -> list[GrowthDecision]:
    return [one for one in growth.memory.decisions if one.acted]


def _of_restart(topic: str, world: World, move: Move) -> bool:
    """Return whether this move gives a partition away for a planned restart, or returns it."""
    giver, taker = world.members.get(move.giver), world.members.get(move.taker)
    leaving = world.life(move.giver, giver.incarnation).restart if giver is not None else None
    back = restarts.back({move.taker: taker.incarnation}, world).get(move.taker) if taker is not None else None
    returns = back is not None and move.partition in back.partitions.get(topic, ())
    return returns or (leaving is not None and leaving.moves)
