"""How long a moved partition will stand still, learned from earlier moves. Pure.

A prediction is the median of earlier pauses of the same way of moving, with an interval that holds the next pause with a
probability of at least 80 %, whatever the distribution: of n earlier pauses and the next one, each rank is as likely as
any other. It takes nine of them to say that much; with fewer, nothing is predicted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from statistics import median

from coordinator_tasks.core.model import MoveKind, Record
from coordinator_tasks.core.pauses import milliseconds

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
        return f"{milliseconds(self.median_s)} ({milliseconds(self.low_s)} to {milliseconds(self.high_s)})"


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


def learned(records: Iterable[Record]) -> tuple[PastMove, ...]:
    """The moves with a known pause of these records of one topic, both the newest first.

    Only a wait that is known from both sides counts: not where nothing waited, nor where it waited at least so long.
    """
    found: list[PastMove] = []
    waits: dict[str, dict[int, float]] = {}  # rebalance → partition → its wait; the record that ends it comes first
    for record in records:
        if record.pauses is not None:
            known = (one for one in record.pauses.measured if one.wait_s is not None and not one.least)
            waits[record.rebalance] = {one.partition: one.wait_s for one in known if one.wait_s is not None}
        left = waits.get(record.rebalance, {})
        # Of a partition that was planned twice, the last move has the pause.
        found += [PastMove(m.kind, left.pop(m.partition)) for m in record.moves if m.giver and m.partition in left]
    return tuple(found)
