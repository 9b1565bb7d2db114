"""Consumers of fleets that hold nothing, and whose end nobody has reported."""

from collections.abc import Collection, Iterator

from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.service import observe, store
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleet import fleets


def give_up(c: Coordinator, managed: Collection[str]) -> Iterator[str]:
    """Note who is absent, as each look at the topics does for those that hold something: else they are never launched again.

    A line for each that is over. Who starts is left alone: its launcher waits for it. Raises `StoreUnavailable` and
    `DiscoveryUnavailable`.
    """
    wanted = {consumer for fleet in fleets(c) for consumer in fleet.consumers}
    members = c.discovery.members() if wanted else {}
    unclear: dict[str, str] = {}
    claims = observe.load_claims(c, sorted(wanted - members.keys()), unclear)
    came = {who: one for who, one in claims.items() if 0 < one.registered == one.incarnation}
    last = {who: one.registered for who, one in came.items() if one.registered not in one.ended}
    held = observe.holders_of(store.load_nodes(c.zk, c.paths, sorted(managed))) if last else {}
    idle = {who: frozenset({incarnation}) for who, incarnation in last.items() if who not in held}
    if not idle:
        return
    claims, asked_at = {who: claims[who] for who in idle}, c.clock.now()
    answers = c.statuses.ask(interfaces(sorted(idle), members, claims))
    directives = observe.load_directives(c, unclear)
    world = World(c.clock.now(), members, claims, directives, answers, unclear=unclear)
    after = observe.note_absences(c, world, idle, asked_at)
    for who in idle:
        life = after.life(who, last[who])
        if life.ending is not None or life.isolation not in (None, world.life(who, last[who]).isolation):
            why = life.isolation.why if life.isolation is not None else "its address refuses"
            yield f"{who}, which held nothing, counts as gone: {why}"
