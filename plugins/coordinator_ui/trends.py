"""How far partitions were behind in the last hour, as somebody has looked. In memory, bounded; the API server keeps it.

A point belongs to the owner at that moment, so the series of a former owner ends with the move.
"""

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.lag import WINDOW, LagStatus, Look, partition_status

KEEP_S = 3_600.0
EVERY_S = 10.0
MOST_POINTS = 500_000
"""Partitions times moments of one cluster: some 13 MB."""
MOST_TOTALS = 40
SPEED_S = 8.0
"""A speed is measured over at least so long."""
NOBODY = -1
_NOT_KNOWN = 0  # Burrow's numbers begin with 1


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition now; `owner` empty = nobody; unknown figures are NaN."""

    topic: str
    partition: int
    owner: str = ""
    position: float = math.nan
    lag: float = math.nan
    rate: float = math.nan


@dataclass(slots=True)
class _Points:
    """One topic at one moment, in columns."""

    partitions: "array[int]" = field(default_factory=lambda: array("l"))
    owners: "array[int]" = field(default_factory=lambda: array("h"))
    names: list[str] = field(default_factory=list)
    positions: "array[float]" = field(default_factory=lambda: array("d"))
    lags: "array[float]" = field(default_factory=lambda: array("d"))
    statuses: "array[int]" = field(default_factory=lambda: array("b"))
    total: float = math.nan


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float
    topics: Mapping[str, _Points]
    size: int


class Trends:
    """The moments of each cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: dict[str, deque[_Moment]] = {}

    def add(self, cluster: str, at: float, standings: Sequence[Standing]) -> None:
        """Keep this moment, if the last one is old enough. More partitions are kept more rarely."""
        every_s = max(EVERY_S, KEEP_S * len(standings) / MOST_POINTS)
        with self._lock:
            kept = self._moments.setdefault(cluster, deque())
            if kept and at < kept[-1].at:  # the clock was set back
                kept.clear()
            if kept and at - kept[-1].at < every_s:
                return
            kept.append(_moment(at, standings))
            while kept and (kept[0].at < at - KEEP_S or sum(one.size for one in kept) > MOST_POINTS):
                kept.popleft()
            _judge(kept, WINDOW * every_s)

    def speeds(self, cluster: str, at: float, standings: Iterable[Standing]) -> dict[tuple[str, int], float]:
        """(Topic, partition) → records per second that its present owner has read; one that moved meanwhile is left out."""
        with self._lock:
            before = next((one for one in reversed(self._moments.get(cluster, ())) if one.at <= at - SPEED_S), None)
        if before is None:
            return {}
        known = {
            (topic, partition): (points.names[owner] if owner != NOBODY else "", position)
            for topic, points in before.topics.items()
            for partition, owner, position in zip(points.partitions, points.owners, points.positions, strict=True)
        }
        found = {}
        for one in standings:
            owner, position = known.get((one.topic, one.partition), ("", math.nan))
            read = one.position - position
            if owner and owner == one.owner and read >= 0:
                found[one.topic, one.partition] = read / (at - before.at)
        return found

    def statuses(self, cluster: str, topic: str) -> dict[int, LagStatus]:
        """Partition → Burrow's status at the last moment; what is not known is left out."""
        with self._lock:
            moments = reversed(self._moments.get(cluster, ()))
            points = next((one.topics[topic] for one in moments if topic in one.topics), _Points())
        found = zip(points.partitions, points.statuses, strict=True)
        return {partition: LagStatus(status) for partition, status in found if status != _NOT_KNOWN}

    def totals(self, cluster: str, topic: str) -> list[float]:
        """Records behind of a whole topic in the last hour, at some `MOST_TOTALS` moments, the oldest first."""
        with self._lock:
            points = [one.topics.get(topic) for one in self._moments.get(cluster, ())]
        known = [one.total for one in points if one is not None and not math.isnan(one.total)]
        step = max(1, math.ceil(len(known) / MOST_TOTALS))
        return known[::-1][::step][::-1]

    def series(self, cluster: str, topic: str, partition: int | None = None) -> dict[str, list[tuple[float, float]]]:
        """Owner → (time, records behind) of a topic, or of one of its partitions; only moments at which it was the owner."""
        with self._lock:
            moments = list(self._moments.get(cluster, ()))
        found: dict[str, list[tuple[float, float]]] = {}
        for moment in moments:
            points = moment.topics.get(topic)
            if points is None:
                continue
            sums: dict[str, float] = {}
            for number, owner, lag in zip(points.partitions, points.owners, points.lags, strict=True):
                if owner != NOBODY and not math.isnan(lag) and partition in (None, number):
                    sums[points.names[owner]] = sums.get(points.names[owner], 0.0) + lag
            for owner_name, total in sums.items():
                found.setdefault(owner_name, []).append((moment.at, total))
        return found


def _moment(at: float, standings: Sequence[Standing]) -> _Moment:
    topics: dict[str, _Points] = {}
    numbers: dict[str, dict[str, int]] = {}
    for one in standings:
        points, known = topics.setdefault(one.topic, _Points()), numbers.setdefault(one.topic, {})
        if one.owner and one.owner not in known:
            known[one.owner] = len(points.names)
            points.names.append(one.owner)
        points.partitions.append(one.partition)
        points.owners.append(known[one.owner] if one.owner else NOBODY)
        points.positions.append(one.position)
        points.lags.append(one.lag)
        if not math.isnan(one.lag):
            points.total = one.lag + (0.0 if math.isnan(points.total) else points.total)
    return _Moment(at, topics, len(standings))


def _judge(kept: deque[_Moment], window_s: float) -> None:
    """The statuses of the newest moment. Looks from before a pause of more than a window count no more: nobody saw what was then."""
    newest = kept[-1]
    for topic, points in newest.topics.items():
        looks: dict[int, list[Look]] = {partition: [] for partition in points.partitions}  # the newest first
        wanting, later = set(looks), newest.at
        for moment in reversed(kept):
            past = moment.topics.get(topic)
            if not wanting or later - moment.at > window_s:
                break
            if past is None:
                continue
            later = moment.at
            for partition, position, lag in zip(past.partitions, past.positions, past.lags, strict=True):
                if partition in wanting and not math.isnan(position):
                    looks[partition].append(Look(moment.at, int(position), None if math.isnan(lag) else int(lag)))
                    if len(looks[partition]) == WINDOW:
                        wanting.discard(partition)
        points.statuses.extend(_status(looks[p][::-1], newest.at, window_s) for p in points.partitions)


def _status(looks: Sequence[Look], now: float, window_s: float) -> int:
    """By the owner's word, as the metric is by Kafka's. While no owner says anything, the log's end is at least where it was."""
    last = looks[-1] if looks else None
    if last is None or last.lag is None or (last.lag == 0 and last.at < now):
        return _NOT_KNOWN
    return partition_status(looks, [last.offset + last.lag], last.lag, now, window_s)
