"""The time for which repeatedly failed consumers get no new partitions, by the stored claims."""

from dataclasses import dataclass, field

from coordinator_tasks.core.model import IdClaim
from tests.simulation.orchestrator import POLICY


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a write: the writer's start by the common clock, and its wall clock at the start and now."""

    began_at: float
    first: float
    last: float


@dataclass
class Withheld:
    """Failed ends in a row of each consumer: their noted times, newest first, and when these were stored."""

    _failed: dict[str, tuple[list[float], float]] = field(default_factory=dict)

    def on_claim(self, claim: IdClaim, now: float) -> None:
        times = _failed_in_a_row(claim)
        if times != self._failed.get(claim.consumer, ([], 0.0))[0]:
            self._failed[claim.consumer] = times, now

    def until(self, consumer: str, moment: Moment) -> float:
        """Return the end of the pause, by the writer's wall clock; 0 if the writer may take the consumer for healthy.

        A writer need not know of what was stored after its start, nor believe times ahead of its clock.
        """
        times, stored_at = self._failed.get(consumer, ([], 0.0))
        if len(times) < POLICY.flap_failures or stored_at >= moment.began_at:
            return 0.0
        if max(times) > moment.first or moment.last - min(times) >= POLICY.flap_window_s:
            return 0.0
        return max(times) + POLICY.flap_backoff_s * 2.0 ** (len(times) - POLICY.flap_failures)


def _failed_in_a_row(claim: IdClaim) -> list[float]:
    """Return the times of the newest ends with a reason, back to the first end without a reason; newest first."""
    times: list[float] = []
    for incarnation in sorted(claim.ended, reverse=True):
        if incarnation not in claim.reasons:
            break
        if incarnation in claim.failed_at:
            times.append(claim.failed_at[incarnation])
    return times
