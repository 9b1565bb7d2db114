"""When the records of one partition pass the sink, under one grant. Times are the clock's monotonic seconds.

A stall ends when a batch passes the sink. It begins with the pass before or, if nothing was left then, with the first record
that came after it. Nobody here knows when a record came: `records` that came between two looks are taken as evenly spaced.
"""

from dataclasses import dataclass
from math import inf

from coordinator_tasks.core.model import LastPass, Taken

BUCKET_S = 10.0
"""The longest stall of the present and of the former bucket is the usual one."""
TOLD_S = 900.0
"""So long after a grant the status says how the partition was taken up."""


@dataclass(slots=True)
class Passes:
    """`empty_at`: nothing was left then beyond what had been handed out. `stalled_at`: since when the batch handed out stalls.

    `before`: what the last commit of the owner before says.
    """

    granted_at: float = -inf
    last_at: float = -inf
    empty_at: float = -inf
    handed_at: float = -inf  # the first batch
    first_at: float | None = None
    stalled_at: float = inf
    waited: int | None = None
    before: LastPass | None = None
    bucket_at: float = -inf
    bucket_s: float | None = None
    former_s: float | None = None

    def empty(self, at: float) -> None:
        """Nothing was left at that time (infinitely long ago = nobody knows)."""
        if at == -inf:
            return
        self.empty_at = max(self.empty_at, at)
        self.waited = 0 if self.waited is None else self.waited

    def hand_out(self, records: int, known: int, now: float) -> None:
        """A batch of so many records is handed out; by the log's end, `known` were there."""
        if self.waited is None:
            self.waited = max(records, known)
        if self.handed_at == -inf:
            self.handed_at = now
        came_at = self.empty_at + (now - self.empty_at) / (records + 1) if self.empty_at > -inf else -inf
        begin = max(self.last_at, came_at)
        self.stalled_at = begin if begin > -inf else inf

    def passed(self, now: float) -> float:
        """That batch has passed the sink; returns the length of its stall, 0 if nobody can say."""
        stall = max(0.0, now - self.stalled_at)
        if self.stalled_at < inf:
            self._roll(now)
            self.bucket_s = max(stall, self.bucket_s or 0.0)
        self.last_at, self.stalled_at = now, inf
        if self.first_at is None:
            self.first_at = now
        return stall

    def taken(self, now: float, *, released: bool) -> Taken | None:
        """How the partition was taken up, if that is known and of interest."""
        if self.waited is None or now - self.granted_at > TOLD_S or (self.waited and self.first_at is None):
            return None
        if self.first_at is None:
            return Taken(0)
        since_release = self.first_at - self.granted_at if released else None
        return Taken(self.waited, now - self.first_at, self.first_at - self.handed_at, since_release, self.before)

    def usual(self, now: float) -> float | None:
        """The longest stall of the last ten to twenty seconds; `None` = none has ended in them."""
        self._roll(now)
        return max((one for one in (self.bucket_s, self.former_s) if one is not None), default=None)

    def _roll(self, now: float) -> None:
        if now - self.bucket_at > BUCKET_S:
            fresh = now - self.bucket_at <= 2 * BUCKET_S
            self.former_s, self.bucket_s, self.bucket_at = self.bucket_s if fresh else None, None, now
