"""Whether somebody asked for what a consumer did: starts and ends that nobody asked for are flapping.

An action on a consumer (`service.directives.put_request`) empties the times of its registrations and of its failed ends, so those that are
left were not asked for.
"""

from collections.abc import Iterable
from math import inf

from coordinator_tasks.core.machine.world import Policy, World
from coordinator_tasks.core.model import Ending, IdClaim

MAX_DOUBLINGS = 16
"""Ours are fewer. A claim may have any number of registrations, and a float has a largest value."""


def recent(claim: IdClaim | None, now: float, policy: Policy) -> list[float]:
    """The registrations that count: of the last `flap_window_s`, without what a clock that has jumped noted ahead."""
    return [at for at in claim.registrations if 0 <= now - at < policy.flap_window_s] if claim is not None else []


def failed_in_a_row(claim: IdClaim) -> list[int]:
    """The newest incarnations that have ended with an error, up to one that has not; the newest first."""
    found: list[int] = []
    for incarnation in sorted(claim.ended, reverse=True):
        if incarnation not in claim.reasons:
            break
        found.append(incarnation)
    return found


def failures(claim: IdClaim | None, now: float, policy: Policy) -> list[float]:
    """When incarnations failed in a row within the last `flap_window_s`; an end whose time is unknown does not count."""
    times = [claim.failed_at.get(one, inf) for one in failed_in_a_row(claim)] if claim is not None else []
    return [at for at in times if 0 <= now - at < policy.flap_window_s]


def backoff_until(claim: IdClaim, now: float, policy: Policy) -> float:
    """Until when an id that flaps gets nothing (seconds since 1970); 0 = it does not flap.

    The pause doubles with each further registration, and with each further failed end in a row.
    """
    starts, ends = recent(claim, now, policy), failures(claim, now, policy)
    excess = max(len(starts) - policy.flap_registrations, len(ends) - policy.flap_failures)
    return max(*starts, *ends) + policy.flap_backoff_s * 2 ** min(excess, MAX_DOUBLINGS) if excess >= 0 else 0.0


def why_flaps(consumer: str, world: World, policy: Policy) -> str:
    """That the id has registered or failed too often to be given anything, in words; an empty text = it has not."""
    claim, window = world.claims.get(consumer), f"within {policy.flap_window_s / 60:g} min"
    count = len(recent(claim, world.now, policy))
    if count >= policy.flap_registrations:
        return f"it flaps: {count} registrations {window} that nobody asked for"
    count = len(failures(claim, world.now, policy))
    return f"it flaps: {count} ends with an error in a row {window}" if count >= policy.flap_failures else ""


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
