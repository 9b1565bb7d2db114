"""Standstill of kept partitions during a rebalance, by accepted epoch. Times are monotonic seconds."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from coordinator_tasks.core.model import LastPass, Stall
from spark_apps.agent.ownership.passes import Passes

WINDOW_S = 30.0
"""Seconds after accepting an epoch in which stalls count for the epoch; a later epoch ends this time early."""
TOLD_S = 900.0
EPOCHS = 8
BUCKET_S = 10.0


@dataclass(slots=True)
class _Window:
    """The stalls after accepting an epoch. `kept_below`: partitions owned since before this epoch count as kept."""

    epoch: int
    began: float
    kept_below: int
    before_s: float
    longest_s: float = 0.0
    partition: int = -1


class Stalls:
    """One window for each accepted epoch, the newest last."""

    def __init__(self) -> None:
        self._windows: deque[_Window] = deque(maxlen=EPOCHS)
        self._bucket_at = -inf
        self._bucket_s = self._former_s = 0.0

    def begin(self, epoch: int, now: float, *, continues: bool) -> None:
        """Note that the node of this epoch was accepted.

        `continues`: the previous node had hand-offs, so this epoch belongs to the same rebalance.
        """
        last = self._windows[-1] if self._windows else None
        if continues and last is not None:
            self._windows.append(_Window(epoch, now, last.kept_below, last.before_s))
            return
        self._roll(now)
        self._windows.append(_Window(epoch, now, epoch, max(self._bucket_s, self._former_s)))

    def read_at(self, epoch: int) -> float | None:
        """Return when a node of this epoch or a later epoch was first read; `None` if not yet."""
        return next((one.began for one in self._windows if one.epoch >= epoch), None)

    def last_pass(self, passes: Passes, now: float, *, pending: bool) -> LastPass | None:
        """Return when the partition's last records passed, or when the partition was last empty if that is later.

        `None` if neither has happened since the oldest known epoch. `pending`: records are handed out and have not
        passed, so a time without records does not count.
        """
        at = passes.last_at if pending else max(passes.last_at, passes.empty_at)
        window = next((one for one in reversed(self._windows) if one.began <= at), None)
        return None if window is None else LastPass(window.epoch, round(at - window.began, 4), passes.usual(now))

    def kept_below(self, now: float) -> float:
        """Return the epoch below which owned partitions count as kept; infinite if no recent epoch was accepted."""
        last = self._windows[-1] if self._windows else None
        return last.kept_below if last is not None and now - last.began <= WINDOW_S else inf

    def note(self, any_s: float, longest_s: float, partition: int, now: float) -> None:
        """Note a passed batch.

        `any_s`: the longest stall of all partitions. `longest_s`: the longest stall of kept partitions, at `partition`.
        """
        self._roll(now)
        self._bucket_s = max(self._bucket_s, any_s)
        last = self._windows[-1] if self._windows else None
        if last is not None and now - last.began <= WINDOW_S and longest_s > last.longest_s:
            last.longest_s, last.partition = longest_s, partition

    def told(self, kept: Callable[[int], int], now: float) -> dict[int, Stall]:
        """Return epoch → stall. `kept` returns the number of partitions owned since before an epoch."""
        recent = [one for one in self._windows if now - one.began <= TOLD_S]
        counts = {below: kept(below) for below in {one.kept_below for one in recent}}
        return {
            one.epoch: Stall(one.longest_s, max(0, one.partition), counts[one.kept_below], one.before_s)
            for one in recent
            if counts[one.kept_below]
        }

    def _roll(self, now: float) -> None:
        if now - self._bucket_at > BUCKET_S:
            fresh = now - self._bucket_at <= 2 * BUCKET_S
            self._former_s, self._bucket_s, self._bucket_at = self._bucket_s if fresh else 0.0, 0.0, now
