"""The moves that a plan may make without a person's approval, by the site's settings. Pure.

Only moves away from a live owner count. Unread partitions, and partitions of a process that ends, never wait.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.measure.pause_prediction import Prediction
from coordinator_tasks.core.measure.pauses import milliseconds
from coordinator_tasks.core.model import Move, MoveKind
from coordinator_tasks.core.text.partition_text import counted

_DAY_MIN = 24 * 60
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one plan of one topic; 0 or empty = no limit."""

    moves: int = 0
    """A plan with more moves of owned partitions of a topic waits for approval; 0 = no limit."""
    share: float = 0.0
    """A plan that moves more than this percentage of a topic's partitions waits for approval; 0 = no limit."""
    pause_s: float = 0.0
    """A plan with a longer predicted total pause (upper end of the interval), or without a prediction yet, waits for
    approval; 0 = no limit.
    """
    hours: tuple[str, ...] = ()
    """Times of the day in UTC, such as `22:00-05:30`, in which no plan needs approval."""
    approvers: tuple[str, ...] = ()
    """Who may approve: user ids of Airflow, users of the operating system; empty = whoever Airflow lets answer."""

    def __post_init__(self) -> None:
        if self.share > 100:
            raise BadSettings(f"budget.share is {self.share:g}, more than all partitions; give 0 to 100 percent")
        if wrong := next((one for one in self.hours if not _HOURS.fullmatch(one)), ""):
            raise BadSettings(
                f"budget.hours has {wrong[:40]!r}, which is no time of the day; write it like 22:00-05:30, in UTC"
            )

    @property
    def is_set(self) -> bool:
        return bool(self.moves or self.share or self.pause_s or self.hours)


def counted_moves(moves: Sequence[Move], ending: frozenset[str]) -> list[Move]:
    """Return the moves that count: away from an owner that lives on. `ending`: consumers whose process will end."""
    between = (MoveKind.HANDOFF, MoveKind.BARRIER)
    return [
        one for one in moves if one.kind in between and one.giver and one.giver != one.taker and one.giver not in ending
    ]


def why_over(
    budget: Budget, moves: Sequence[Move], partitions: int, pauses: Mapping[MoveKind, Prediction | None], now: float
) -> tuple[str, ...]:
    """Return, in sentences, how the plan exceeds the budget; empty if it does not.

    `partitions`: number of the topic's partitions. `pauses`: predicted pause of each kind of move. `now`: since 1970.
    """
    if not moves:
        return ()
    found, share = [], 100 * len(moves) / max(1, partitions)
    what = counted(len(moves), "partition")
    if budget.moves and len(moves) > budget.moves:
        found.append(f"{what} would move, and the budget is {budget.moves}")
    if budget.share and share > budget.share:
        found.append(f"{share:.0f} % of the partitions would move, and the budget is {budget.share:g} %")
    if budget.pause_s:
        found += _long_pauses(budget.pause_s, {one.kind for one in moves}, pauses)
    if budget.hours and not _within(budget.hours, now):
        found.append(f"the time is outside of {', '.join(budget.hours)} UTC")
    return tuple(found)


def _long_pauses(limit_s: float, kinds: set[MoveKind], pauses: Mapping[MoveKind, Prediction | None]) -> list[str]:
    known = [found for kind in kinds if (found := pauses.get(kind)) is not None and not found.rough]
    longest = max((one.total for one in known), key=lambda one: one.high_s, default=None)
    budget = f"the budget is {milliseconds(limit_s)}"
    if longest is not None and longest.high_s > limit_s:
        return [f"a total pause of {longest.text} is predicted, and {budget}"]
    return [f"a pause cannot be predicted yet, and {budget}"] if len(known) < len(kinds) else []


def _within(hours: Sequence[str], now: float) -> bool:
    minute = int(now // 60) % _DAY_MIN
    for one in hours:
        begin, end = (int(text[:2]) * 60 + int(text[3:]) for text in one.split("-"))
        if begin <= minute < end or (end <= begin and (minute >= begin or minute < end)):
            return True
    return False
