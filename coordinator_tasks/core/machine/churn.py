"""Whether somebody asked for what a consumer did: starts and ends that nobody asked for are flapping.

An action on a consumer (`service.directives.put_request`) empties the times of its registrations, so those that are left were not asked for.
"""

from collections.abc import Iterable

from coordinator_tasks.core.machine.world import Policy, World
from coordinator_tasks.core.model import Ending, IdClaim


def recent(claim: IdClaim | None, now: float, policy: Policy) -> list[float]:
    """The registrations that count: of the last `flap_window_s`, without what a clock that has jumped noted ahead."""
    return [at for at in claim.registrations if 0 <= now - at < policy.flap_window_s] if claim is not None else []


def why_flaps(consumer: str, world: World, policy: Policy) -> str:
    """That the id has registered too often to be given anything, in words; an empty text = it has not."""
    count = len(recent(world.claims.get(consumer), world.now, policy))
    if count < policy.flap_registrations:
        return ""
    return f"it flaps: {count} registrations within {policy.flap_window_s / 60:g} min that nobody asked for"


def unasked_end(consumer: str, incarnation: int, world: World, policy: Policy) -> bool:
    """Whether nobody asked this incarnation to give its partitions away or to end, or its id flaps.

    A clean leave is the answer to a signal, which somebody has sent.
    """
    life = world.life(consumer, incarnation)
    if life.isolation is not None:
        return life.isolation.incarnation != 0  # a person means the id, the platform one incarnation
    if life.restart is not None or (life.draining is not None and life.draining.by != consumer):
        return False
    left = life.ending is Ending.LEFT and not life.reason
    return bool(why_flaps(consumer, world, policy)) or not (left or life.draining is not None)


def unasked_start(consumer: str, world: World, policy: Policy) -> bool:
    """Whether this registered consumer is back after an end that nobody asked for, or its id flaps."""
    claim = world.claims.get(consumer)
    if claim is None or len(recent(claim, world.now, policy)) < 2:
        return False
    former = max((i for i in claim.ended if i < claim.registered), default=0)
    return not former or unasked_end(consumer, former, world, policy)


def unasked(joined: Iterable[str], left: Iterable[tuple[str, int]], world: World, policy: Policy) -> bool:
    """Whether nobody asked for one of these starts, or for one of these ends of (consumer, incarnation)."""
    ended = any(unasked_end(consumer, incarnation, world, policy) for consumer, incarnation in left)
    return ended or any(unasked_start(consumer, world, policy) for consumer in joined)
