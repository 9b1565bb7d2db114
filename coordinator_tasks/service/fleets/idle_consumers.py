"""Fleets' consumers that own no partitions and whose end was not reported."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store
from coordinator_tasks.service.nodes.fleet import STARTS_S, fleets


def give_up(c: Coordinator, managed: Collection[str]) -> Iterator[str]:
    """Note absent consumers without partitions, so that they are launched again. Observations note only absent owners.

    Yield a line for each ended consumer. A consumer that has not registered yet gets `STARTS_S` more. Raises
    `StoreUnavailable` and `DiscoveryUnavailable`.
    """
    try:
        wanted = {consumer for fleet in fleets(c) for consumer in fleet.consumers}
    except NoAccess as error:
        yield f"consumers that hold nothing are not checked: {error}"
        return
    members = c.discovery.members() if wanted else {}
    unclear: dict[str, str] = {}
    claims = observe.load_claims(c, sorted(wanted - members.keys()), unclear)
    last = {who: one.incarnation for who, one in claims.items() if one.incarnation and one.incarnation not in one.ended}
    held = observe.holders_of(store.load_nodes(c.zk, c.paths, sorted(managed))) if last else {}
    idle = {who: frozenset({incarnation}) for who, incarnation in last.items() if who not in held}
    if not idle:
        return
    claims, asked_at = {who: claims[who] for who in idle}, c.clock.now()
    starting = {who: found for who, found in idle.items() if claims[who].registered not in found}
    came = {who: found for who, found in idle.items() if who not in starting}
    answers = c.statuses.ask(interfaces(sorted(idle), members, claims))
    directives = observe.load_directives(c, unclear)
    world = World(c.clock.now(), members, claims, directives, answers, unclear=unclear)
    after = observe.note_absences(c, world, came, asked_at)
    patient = replace(c, policy=replace(c.policy, absent_after_s=c.policy.absent_after_s + STARTS_S))
    after = observe.note_absences(patient, after, starting, asked_at)
    for who in idle:
        life = after.life(who, last[who])
        if life.ending is not None or life.isolation not in (None, world.life(who, last[who]).isolation):
            why = life.isolation.why if life.isolation is not None else "its address refuses"
            which = "has not registered" if who in starting else "held nothing"
            yield f"{who}, which {which}, counts as gone: {why}"
