"""A histogram in Prometheus' form: for each bound, the number of values up to the bound."""

from bisect import bisect_left
from collections.abc import Sequence

PAUSE_S = (
    *(0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0),
    *(2.0, 5.0, 10.0, 30.0),
)
"""Bounds for pauses and stalls: fine from 1 to 1,000 ms."""
BATCH_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""OpenTelemetry's bounds for `messaging.process.duration`."""


class Buckets:
    """Counts values. `total` is the sum of the values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound in Prometheus' notation, with the number of values up to the bound; the last is `+Inf`."""
        found, so_far = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self._counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found
