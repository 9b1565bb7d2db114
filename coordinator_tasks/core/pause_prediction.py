"""How long a moved partition will stand still, learned from earlier moves. Pure.

A prediction is the median of earlier pauses of the same way of moving, with an interval that holds the next pause with a
probability of at least 80 %, whatever the distribution: of n earlier pauses and the next one, each rank is as likely as
any other. It takes nine of them to say that much; with fewer, nothing is predicted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from statistics import median

from coordinator_tasks.core.model import MoveKind

SHARE = 0.8
MIN_MOVES = 9
"""With fewer, even the interval from the shortest to the longest pause holds less than 80 %."""
MAX_MOVES = 500
"""The newest count: consumers, batches and loads change."""


@dataclass(frozen=True, slots=True)
class PastMove:
    """One earlier move; `pause_s`: how long a record waited for it, 0 = none waited."""

    kind: MoveKind
    pause_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds; `moves`: how many earlier ones it is learned from."""

    median_s: float
    low_s: float
    high_s: float
    moves: int

    @property
    def text(self) -> str:
        """For a person."""
        return f"{_seconds(self.median_s)} ({_seconds(self.low_s)} to {_seconds(self.high_s)})"


def predict(past: Iterable[PastMove], kind: MoveKind) -> Prediction | None:
    """The prediction for a move of this kind; `past` is the newest first. `None` = too few are known."""
    pauses: list[float] = []
    for one in past:
        if one.kind is kind and len(pauses) < MAX_MOVES:
            pauses.append(one.pause_s)
    count = len(pauses)
    if count < MIN_MOVES:
        return None
    pauses.sort()
    tail = (1 - SHARE) / 2
    # Rounded against the error of a product such as 10 * 0.1.
    low, high = floor(round((count + 1) * tail, 9)), ceil(round((count + 1) * (1 - tail), 9))
    return Prediction(median(pauses), pauses[low - 1], pauses[high - 1], count)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
