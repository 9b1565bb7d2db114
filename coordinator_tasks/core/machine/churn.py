"""Tell requested starts and ends of consumers from flapping.

An action on a consumer (`service.directives.put_request`) clears the stored times of registrations and failed ends. So
nobody requested the times that are still stored.
"""

from collections.abc import Iterable
from math import inf

from coordinator_tasks.core.machine.world import Policy, World
from coordinator_tasks.core.model import Ending, IdClaim

MAX_DOUBLINGS = 16
"""Upper bound of back-off doublings. A claim may list many registrations, and a larger exponent overflows."""


def recent(claim: IdClaim | None, now: float, policy: Policy) -> list[float]:
    """Return the registrations within the last `flap_window_s`, without times ahead of `now` from a clock that jumped."""
    return [at for at in claim.registrations if 0 <= now - at < policy.flap_window_s] if claim is not None else []


def failed_in_a_row(claim: IdClaim) -> list[int]:
    """Return the newest incarnations that ended with an error, newest first, back to the last end without an error."""
    failed: list[int] = []
    for incarnation in sorted(claim.ended, reverse=True):
        if incarnation not in claim.reasons:
            break
        failed.append(incarnation)
    return failed


def failures(claim: IdClaim | None, now: float, policy: Policy) -> list[float]:
    """Return the times of consecutive failed ends within the last `flap_window_s`, without ends of unknown time."""
    times = (
        [claim.failed_at.get(incarnation, inf) for incarnation in failed_in_a_row(claim)] if claim is not None else []
    )
    return [at for at in times if 0 <= now - at < policy.flap_window_s]


def backoff_until(claim: IdClaim, now: float, policy: Policy) -> float:
    """Return when a flapping id gets partitions again, in seconds since 1970; 0 if the id does not flap.

    Each further registration doubles the pause, and so does each further consecutive failed end.
    """
    starts, ends = recent(claim, now, policy), failures(claim, now, policy)
    excess = max(len(starts) - policy.flap_registrations, len(ends) - policy.flap_failures)
    return max(*starts, *ends) + policy.flap_backoff_s * 2 ** min(excess, MAX_DOUBLINGS) if excess >= 0 else 0.0


def why_flaps(consumer: str, world: World, policy: Policy) -> str:
    """Return, in words, how the id flaps: too many registrations or failed ends; empty if the id does not flap."""
    claim, window = world.claims.get(consumer), f"within {policy.flap_window_s / 60:g} min"
    count = len(recent(claim, world.now, policy))
    if count >= policy.flap_registrations:
        return f"it flaps: {count} registrations {window} that nobody asked for"
    count = len(failures(claim, world.now, policy))
    return f"it flaps: {count} ends with an error in a row {window}" if count >= policy.flap_failures else ""


def unasked_end(consumer: str, incarnation: int, world: World, policy: Policy) -> bool:
    """Return whether the id flaps, or nobody asked this incarnation to drain or to end.

    A clean leave counts as requested, because a signal causes it.
    """
    life = world.life(consumer, incarnation)
    if life.isolation is not None:
        return life.isolation.incarnation != 0  # a person isolates the id; only the platform isolates one incarnation
    if life.restart is not None or (life.draining is not None and life.draining.by != consumer):
        return False
    left = life.ending is Ending.LEFT and not life.reason
    return bool(why_flaps(consumer, world, policy)) or not (left or life.draining is not None)


def unasked_start(consumer: str, world: World, policy: Policy) -> bool:
    """Return whether this consumer is registered again after an unrequested end, or the id flaps."""
    claim = world.claims.get(consumer)
    if claim is None or len(recent(claim, world.now, policy)) < 2:
        return False
    former = max((i for i in claim.ended if i < claim.registered), default=0)
    return not former or unasked_end(consumer, former, world, policy)


def unasked(joined: Iterable[str], left: Iterable[tuple[str, int]], world: World, policy: Policy) -> bool:
    """Return whether any of these starts or ends was unrequested. `left`: pairs of consumer and incarnation."""
    ended = any(unasked_end(consumer, incarnation, world, policy) for consumer, incarnation in left)
    return ended or any(unasked_start(consumer, world, policy) for consumer in joined)
