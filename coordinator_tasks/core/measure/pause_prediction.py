"""Predict a moved partition's pause from earlier moves. Pure.

A prediction is the median of earlier pauses of the same kind of move, with an interval that contains the next pause
with a probability of at least 80 %. This holds for any distribution: among n earlier pauses and the next pause, each
rank is equally likely. The interval needs nine pauses. With fewer pauses the prediction is rough: the interval reaches
from a fraction of the shortest pause to a multiple of the longest.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import ceil, floor
from statistics import median

from coordinator_tasks.core.measure.pauses import milliseconds
from coordinator_tasks.core.model import MoveKind, Pause, Record

SHARE = 0.8
MIN_MOVES = 9
"""With fewer moves, the interval from the shortest to the longest pause holds less than 80 %, so it is widened."""
FEW_MOVES = 4
WIDER, WIDEST = 2.0, 4.0
"""Factors by which an interval is widened: with fewer than `MIN_MOVES` moves, and with fewer than `FEW_MOVES`."""
MAX_MOVES = 500
"""Only the newest moves count, because consumers, batches and loads change."""


@dataclass(frozen=True, slots=True)
class PastMove:
    """An earlier move. `pause_s`: its total pause; 0 if no record waited. `usual_s`: the usual stall; may be `None`."""

    kind: MoveKind
    pause_s: float
    usual_s: float | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval in seconds."""

    median_s: float
    low_s: float
    high_s: float

    @property
    def text(self) -> str:
        return f"{milliseconds(self.median_s)} ({milliseconds(self.low_s)} to {milliseconds(self.high_s)})"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of the total and the extra pause. `moves`: number of earlier moves. `rough`: there were too few moves.

    `usual_s`: the median of the usual stalls. If no earlier move has a usual stall, `usual_s` and the extra are `None`.
    """

    total: Interval
    moves: int
    rough: bool = False
    extra: Interval | None = None
    usual_s: float | None = None

    @property
    def text(self) -> str:
        total = f"total {self.total.text}"
        if self.extra is None or self.usual_s is None:
            return f"pause {total}"
        return f"extra pause {self.extra.text}; {total}, usual {milliseconds(self.usual_s)}"


def predict(past: Iterable[PastMove], kind: MoveKind) -> Prediction | None:
    """Return the prediction for a move of this kind; `None` if no such move is known. `past`: newest first."""
    moves = list(islice((one for one in past if one.kind is kind), MAX_MOVES))
    if not moves:
        return None
    known = [(one.pause_s, one.usual_s) for one in moves if one.usual_s is not None]
    extra = _interval([max(0.0, pause_s - usual_s) for pause_s, usual_s in known]) if known else None
    usual_s = median(usual_s for _, usual_s in known) if known else None
    total = _interval([one.pause_s for one in moves])
    return Prediction(total, len(moves), len(moves) < MIN_MOVES, extra, usual_s)


def _interval(values: Iterable[float]) -> Interval:
    found = sorted(values)
    count = len(found)
    if count < MIN_MOVES:
        factor = WIDER if count >= FEW_MOVES else WIDEST
        return Interval(median(found), found[0] / factor, found[-1] * factor)
    tail = (1 - SHARE) / 2
    # Rounding corrects products such as 10 * 0.1.
    low, high = floor(round((count + 1) * tail, 9)), ceil(round((count + 1) * (1 - tail), 9))
    return Interval(median(found), found[low - 1], found[high - 1])


LEARNED_RECORDS = 500
"""Number of a topic's newest records used for a prediction."""


def learned(records: Iterable[Record]) -> tuple[PastMove, ...]:
    """Return the moves with a known pause from a topic's records. Both records and moves are newest first.

    A total counts only if giver and taker both report. Totals with bounds only, and moves without waiting records, do
    not.
    """
    found: list[PastMove] = []
    waits: dict[str, dict[int, Pause]] = {}  # rebalance → partition → pause; the rebalance's last record comes first
    for record in records:
        if record.pauses is not None:
            known = (one for one in record.pauses.measured if one.wait_s is not None and not one.least)
            waits[record.rebalance] = {one.partition: one for one in known}
        left = waits.get(record.rebalance, {})
        # If a partition was planned twice, the pause belongs to its last move.
        mine = [(m, left.pop(m.partition)) for m in record.moves if m.giver and m.partition in left]
        found += [PastMove(move.kind, one.wait_s or 0.0, one.usual_s) for move, one in mine]
    return tuple(found)
