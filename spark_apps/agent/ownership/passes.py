"""Times at which a partition's records pass the sink, under one grant. Times are the clock's monotonic seconds.

A stall ends when a batch passes the sink. A stall begins with the previous pass or, if no record was left then, with
the first later record. Arrival times of records are unknown: records between two looks count as evenly spaced.
"""

from dataclasses import dataclass
from math import inf
from statistics import median

from coordinator_tasks.core.model import LastPass, Taken

BUCKET_S = 10.0
"""Seconds of a bucket. The usual stall is the longest undisturbed stall of the present and the former bucket."""
RECENT, ENOUGH = 9, 3
"""Number of recent stalls kept to recognize a disturbed stall, and number needed."""
HANG_S, HANG_FACTOR = 1.0, 3.0
"""A stall is disturbed if longer than these seconds and this multiple of the recent median. The median replaces it."""
TOLD_S = 900.0
"""Seconds after a grant in which the status reports the take-up."""


@dataclass(slots=True)
class Passes:
    """`empty_at`: when no record was left to hand out. `stalled_at`: begin of the current batch's stall.

    `before`: the last pass that the previous owner reported in its last commit.
    """

    granted_at: float = -inf
    last_at: float = -inf
    empty_at: float = -inf
    handed_at: float = -inf  # when the first batch was handed out
    first_at: float | None = None
    stalled_at: float = inf
    waited: int | None = None
    before: LastPass | None = None
    bucket_at: float = -inf
    bucket_s: float | None = None
    former_s: float | None = None
    recent: tuple[float, ...] = ()

    def empty(self, at: float) -> None:
        """Note that no record was left at that time (minus infinity = unknown)."""
        if at == -inf:
            return
        self.empty_at = max(self.empty_at, at)
        self.waited = 0 if self.waited is None else self.waited

    def hand_out(self, records: int, known: int, now: float) -> None:
        """Note a handed-out batch of `records`. `known`: records up to the log's end at that time."""
        if self.waited is None:
            self.waited = max(records, known)
        if self.handed_at == -inf:
            self.handed_at = now
        came_at = self.empty_at + (now - self.empty_at) / (records + 1) if self.empty_at > -inf else -inf
        begin = max(self.last_at, came_at)
        self.stalled_at = begin if begin > -inf else inf

    def discard(self) -> None:
        """Note that the batch will not pass. Its records wait again, so earlier looks at an empty log do not count."""
        self.empty_at, self.stalled_at = -inf, inf

    def passed(self, now: float) -> float:
        """Note that the batch has passed the sink. Return the length of the batch's stall in seconds, 0 if unknown."""
        stall = max(0.0, now - self.stalled_at)
        if self.stalled_at < inf:
            self._roll(now)
            self.bucket_s = max(self._undisturbed(stall), self.bucket_s or 0.0)
            self.recent = (*self.recent[1 - RECENT :], stall)
        self.last_at, self.stalled_at = now, inf
        if self.first_at is None:
            self.first_at = now
        return stall

    def taken(self, now: float, *, released: bool) -> Taken | None:
        """Return how the partition was taken up; `None` if unknown or long ago."""
        if self.waited is None or now - self.granted_at > TOLD_S or (self.waited and self.first_at is None):
            return None
        if self.first_at is None:
            return Taken(0)
        since_release = self.first_at - self.granted_at if released else None
        return Taken(self.waited, now - self.first_at, self.first_at - self.handed_at, since_release, self.before)

    def usual(self, now: float) -> float | None:
        """Return the longest undisturbed stall of the last ten to twenty seconds; `None` if none has ended."""
        self._roll(now)
        return max((one for one in (self.bucket_s, self.former_s) if one is not None), default=None)

    def _undisturbed(self, stall: float) -> float:
        if stall <= HANG_S or len(self.recent) < ENOUGH:
            return stall
        middle = median(self.recent)
        return middle if stall > HANG_FACTOR * middle else stall

    def _roll(self, now: float) -> None:
        if now - self.bucket_at > BUCKET_S:
            fresh = now - self.bucket_at <= 2 * BUCKET_S
            self.former_s, self.bucket_s, self.bucket_at = self.bucket_s if fresh else None, None, now
