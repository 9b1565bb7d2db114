"""Consecutive failed ends of a consumer's processes, and when the next process gets partitions. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from coordinator_tasks.core.machine.churn import failed_in_a_row
from coordinator_tasks.core.machine.presence import in_backoff
from coordinator_tasks.core.machine.world import Policy, World
from coordinator_tasks.core.text.partition_text import counted


@dataclass(frozen=True, slots=True)
class Exits:
    """`count` consecutive ends with an error. The last end was of `incarnation`, for `reason`.

    `next_at`: when the id gets partitions again; 0 without a back-off.
    """

    count: int
    incarnation: int
    reason: str
    next_at: float = 0.0

    @property
    def told(self) -> str:
        often = f" ({counted(self.count, 'time')} in a row)" if self.count > 1 else ""
        again = datetime.fromtimestamp(self.next_at, UTC).strftime("%H:%M:%SZ")
        later = f"; its id gets partitions again at {again}" if self.next_at else ""
        return f"incarnation {self.incarnation} has ended: {self.reason}{often}{later}"


def exits(consumer: str, world: World, policy: Policy) -> Exits | None:
    """Return the last consecutive failed ends of a consumer; `None` if the last end had no error.

    Ends before the flap window do not count as a crash loop.
    """
    claim = world.claims.get(consumer)
    if claim is None or not (failed := failed_in_a_row(claim)):
        return None
    looping = not claim.registrations or world.now - claim.registrations[-1] < policy.flap_window_s
    wait_s = in_backoff(consumer, world, policy)
    return Exits(
        len(failed) if looping else 1, failed[0], claim.reasons[failed[0]], world.now + wait_s if wait_s else 0.0
    )
