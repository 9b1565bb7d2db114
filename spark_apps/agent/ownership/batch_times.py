"""Durations of batches, to notice a batch that takes far longer than usual. Times are monotonic seconds."""

from collections import deque
from math import inf
from statistics import median

RECENT = 20
ENOUGH = 3
"""The usual time is known after so many batches."""
FACTOR = 10.0


class BatchTimes:
    """Durations of a topic's batches; at most one is under way. A larger batch may take longer in proportion."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._began = inf
        self._size = 0

    def begin(self, size: int, now: float) -> None:
        """Note that a batch of `size` offsets is handed out."""
        self._began, self._size = now, size

    def end(self, now: float) -> float | None:
        """Note that the batch has passed the sink. Return its duration in seconds; `None` if its begin is unknown."""
        took_s = None
        if self._began < inf:
            took_s = now - self._began
            self._recent.append((took_s, self._size))
        self.drop()
        return took_s

    def drop(self) -> None:
        self._began = inf

    def exceeds(self, now: float, least_s: float, most_s: float = inf) -> bool:
        """Return whether the batch takes longer than `most_s`, or than both `least_s` and `FACTOR` usual times."""
        usual = self._usual_s
        limit_s = most_s if usual is None else min(most_s, max(least_s, FACTOR * usual))
        return now - self._began > limit_s

    def told(self, now: float) -> str:
        """Return the age of the batch under way and the usual duration, as a sentence."""
        usual = self._usual_s
        known = "" if usual is None else f" ({usual:.1f} s is usual)"
        return f"a batch of {self._size} offsets has not ended for {now - self._began:.0f} s{known}"

    def age_s(self, now: float) -> float:
        return now - self._began

    @property
    def _usual_s(self) -> float | None:
        if len(self._recent) < ENOUGH:
            return None
        size = median(size for _, size in self._recent)
        return median(took_s for took_s, _ in self._recent) * max(1.0, self._size / max(1.0, size))
