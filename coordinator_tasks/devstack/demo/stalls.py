"""Stalls of partitions, from the time stamps of the producer and the sink. Pure.

During a stall a partition has records to process, and processes none. A stall ends with a processing. It begins with
the previous processing or, if no record was left then, when the next record is produced. A stall that is partly in a
window counts with its whole length.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import inf
from statistics import median

from coordinator_tasks.devstack.demo.evidence import Produced, Row


@dataclass(frozen=True, slots=True)
class MeasuredStall:
    """One stall, in seconds since 1970. `until_at` is infinite if the partition processed nothing afterwards."""

    from_at: float
    until_at: float

    @property
    def length_s(self) -> float:
        return self.until_at - self.from_at


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and maximum of the longest stalls of several partitions, in milliseconds; 0 without partitions."""

    p50_ms: float
    max_ms: float
    partitions: int


def stalls(produced: Sequence[Produced], rows: Sequence[Row]) -> dict[int, list[MeasuredStall]]:
    """Return partition → all stalls, in order. A record counts as processed when the sink has it."""
    first: dict[tuple[int, int], float] = {}
    for row in rows:
        key = (row.partition, row.offset)
        first[key] = min(first.get(key, inf), row.processed_at)
    events: dict[int, list[tuple[float, float]]] = {}
    for one in produced:
        done_at = first.get((one.partition, one.offset), inf)
        events.setdefault(one.partition, []).append((done_at, one.produced_at))
    return {
        partition: between([(at, next(group)[1]) for at, group in groupby(sorted(found), key=lambda e: e[0])])
        for partition, found in sorted(events.items())
    }


def between(processings: Sequence[tuple[float, float]]) -> list[MeasuredStall]:
    """Return the stalls between a partition's processings, in order. Each: (time, production of the oldest record)."""
    oldest_left = list(accumulate((made for _, made in reversed(processings)), min))[::-1]
    before = [-inf, *(at for at, _ in processings)]
    found = zip(processings, before, oldest_left, strict=False)
    return [MeasuredStall(max(last_at, made), at) for (at, _), last_at, made in found]


def longest(
    found: Mapping[int, Sequence[MeasuredStall]], from_at: float, to_at: float, *, within: bool = False
) -> dict[int, float]:
    """Return partition → its longest stall, in seconds, that is at least partly in the window; 0 without a stall.

    `within`: only stalls that begin and end in the window. Other stalls belong to the event before or after.
    """
    return {
        partition: max(lengths_s(some, from_at, to_at, within=within), default=0.0) for partition, some in found.items()
    }


def lengths_s(found: Sequence[MeasuredStall], from_at: float, to_at: float, *, within: bool = False) -> list[float]:
    """Return, in order, the seconds of a partition's stalls that reach into the window. `within`: as in `longest`."""
    begin = bisect_right(found, from_at, key=lambda s: s.until_at)
    reaching = (s for s in found[begin:] if s.from_at < to_at)
    return [s.length_s for s in reaching if not within or (s.from_at >= from_at and s.until_at <= to_at)]


def spread(longest_s: Mapping[int, float], partitions: Collection[int]) -> Spread:
    """Return the median and maximum of these partitions' longest stalls."""
    values = [longest_s.get(partition, 0.0) for partition in partitions] or [0.0]
    return Spread(round(median(values) * 1000, 1), round(max(values) * 1000, 1), len(partitions))
