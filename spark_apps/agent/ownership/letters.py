"""Counts the records of a topic that the pipeline could not process, and stops a partition with too many."""

from collections import deque
from collections.abc import Mapping
from itertools import pairwise

from coordinator_tasks.core.ports import Clock

WINDOW_S = 60.0
FREE = 10
"""Bad records in a minute above which their share counts. With fewer, a share says little."""


class LetterCounts:
    """Numbers of bad records and of all records per partition in the last minute. `total`: bad records since the start.

    A partition over its bound is stopped until it has passed the end of the failed batch, or has another grant.
    """

    def __init__(self, clock: Clock) -> None:
        self.total = 0
        self._clock = clock
        self._minutes: dict[int, deque[tuple[float, int, int]]] = {}  # time, bad records, all records
        self._stopped: dict[int, tuple[int, int]] = {}  # epoch of the grant, end of the batch
        self._recalled: dict[int, int] = {}  # epoch of the grant

    def is_stopped(self, partition: int, epoch: int, start: int) -> bool:
        """Return whether the partition is stopped, so that a batch from `start` on must not have a bad record."""
        stopped = self._stopped.get(partition)
        if stopped is not None and (stopped[0] != epoch or start >= stopped[1]):
            del self._stopped[partition]
            return False
        return stopped is not None

    def exceeds(self, partition: int, bad: int, records: int, share: float, per_minute: int) -> bool:
        """Return whether these records, together with the last minute's, exceed the partition's bound."""
        minute = self._minute(partition)
        all_bad = bad + sum(one for _, one, _ in minute)
        all_records = records + sum(one for _, _, one in minute)
        return all_bad > per_minute or (all_bad > FREE and all_bad > share * all_records)

    def stop(self, partition: int, epoch: int, end: int) -> None:
        """Stop a partition whose batch up to `end` has exceeded the bound."""
        self._stopped[partition] = (epoch, end)

    def note(self, partition: int, bad: int, records: int) -> None:
        """Note a batch of the partition that has passed without its bad records."""
        self._minute(partition).append((self._clock.monotonic(), bad, records))
        self.total += bad

    def has_recalled(self, partition: int, epoch: int) -> bool:
        """Return whether `recall` has been called for this grant."""
        return self._recalled.get(partition) == epoch

    def recall(self, partition: int, epoch: int, start: int, stored: Mapping[int, float]) -> None:
        """Count the stored letters below `start` in place of the counts in memory, which lack a former owner's letters.

        `stored`: offset → age in seconds. All records since the first of these letters count too.
        """
        self._recalled[partition] = epoch
        now, offsets = self._clock.monotonic(), [*sorted(offset for offset in stored if offset < start), start]
        minute = sorted((now - max(0.0, stored[offset]), 1, after - offset) for offset, after in pairwise(offsets))
        if minute:
            self._minutes[partition] = deque(minute)

    def _minute(self, partition: int) -> deque[tuple[float, int, int]]:
        found = self._minutes.setdefault(partition, deque())
        since = self._clock.monotonic() - WINDOW_S
        while found and found[0][0] < since:
            found.popleft()
        return found
