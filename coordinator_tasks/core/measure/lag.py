"""How far a group is behind, in seconds and as a status of Burrow.

Rules: https://github.com/linkedin/Burrow/wiki/Consumer-Lag-Evaluation-Rules, in the order of Burrow 1.9. Two of
Burrow's settings are fixed here: only a full window is judged, and STOP needs a silence as long as a window. So the
first samples raise no alarm.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

WINDOW = 10
"""Number of samples in a window, as in Burrow's `intervals`."""
POINTS = 32
"""Maximum samples of a log's end. Beyond, every second sample is dropped, so old samples lie further apart."""
_AT_END = 2


class LagStatus(IntEnum):
    """Burrow's numbers, as in its metrics. A group with a partition in STOP, STALL or REWIND is in ERR."""

    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


@dataclass(frozen=True, slots=True)
class LagLook:
    """A commit and its time in seconds. `lag`: offsets from `offset` to the log's end then; `None` if unknown."""

    at: float
    offset: int
    lag: int | None


def partition_status(looks: Sequence[LagLook], ends: Sequence[int], lag: int, now: float, window_s: float) -> LagStatus:
    """Return the status of one partition.

    `looks`: the last commits, oldest first, at most `WINDOW`. `ends`: the last samples of the log's end. `lag`: the
    present lag. `window_s`: seconds of a full window.
    """
    if lag <= 0 or not looks:
        return LagStatus.OK
    silent_s, covered_s = now - looks[-1].at, looks[-1].at - looks[0].at
    if silent_s > max(covered_s, window_s) and all(end > looks[-1].offset for end in ends):
        return LagStatus.STOP
    if _rewound(looks):
        return LagStatus.REWIND
    if len(looks) < WINDOW or any(one.lag == 0 for one in looks):
        return LagStatus.OK
    if all(one.offset == looks[0].offset for one in looks):
        return LagStatus.STALL
    lags = [one.lag for one in looks if one.lag is not None]
    if all(later >= earlier for earlier, later in pairwise(lags)):
        return LagStatus.WARN
    return LagStatus.OK


def group_status(partitions: Iterable[LagStatus]) -> LagStatus:
    """Return the worst status of a group's partitions, but nothing worse than ERR."""
    return min(max(partitions, default=LagStatus.OK), LagStatus.ERR)


def furthest_s(partitions: Iterable[tuple[int, float | None]]) -> float | None:
    """Return the seconds of the partition furthest behind; `None` if unknown. `partitions`: (lag, seconds) pairs.

    A partition without lag is 0 seconds behind. If the seconds of a lagging partition are unknown, other lagging
    partitions decide.
    """
    found = list(partitions)
    known = [seconds for lag, seconds in found if lag and seconds is not None]
    if known:
        return max(known)
    return None if not found or any(lag for lag, _ in found) else 0.0


def _rewound(looks: Sequence[LagLook]) -> bool:
    """Return whether an offset went back and has not caught up with its former value."""
    for number in range(1, len(looks)):
        before = looks[number - 1].offset
        if looks[number].offset < before:
            return all(one.offset < before for one in looks[number:])
    return False


class EndPoints:
    """Samples of the log's end: at most `POINTS` pairs of offset and seconds, oldest first."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []

    def see(self, end: int, at: float) -> None:
        """Store the end that was just read.

        While the end stands still, only the last point's time changes, because the next record comes later.
        """
        points = self._points
        if points and end < points[-1][0]:
            points.clear()  # the topic was recreated
        if len(points) >= _AT_END and points[-2][0] == points[-1][0] == end:
            points[-1] = (end, at)
            return
        points.append((end, at))
        if len(points) > POINTS:
            del points[1:-1:2]

    def behind_s(self, offset: int, now: float) -> float | None:
        """Return seconds since the record at `offset` was written; 0 if not written yet, `None` if unknown.

        Records between two points count as evenly spaced. Before the first point, the average spacing applies.
        """
        points = self._points
        if not points:
            return None
        first, last = points[0], points[-1]
        if offset >= last[0]:
            return 0.0
        if offset >= first[0]:
            at = max(number for number, (end, _) in enumerate(points) if end <= offset)
            first, last = points[at], points[at + 1]
        if last[0] == first[0] or last[1] <= first[1]:
            return None
        rate = (last[0] - first[0]) / (last[1] - first[1])
        return max(0.0, now - (first[1] + (offset - first[0]) / rate))
