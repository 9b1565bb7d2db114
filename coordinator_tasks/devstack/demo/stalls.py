"""Stalls of partitions, from the time stamps of the producer and the sink. Pure.

During a stall a partition has records to process, and processes none. A stall ends with a processing. It begins with
the previous processing or, if no record was left then, when the next record is produced. A stall that is partly in a
window counts with its whole length.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

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
    return {partition: _of_partition(found) for partition, found in sorted(events.items())}


def _of_partition(events: list[tuple[float, float]]) -> list[MeasuredStall]:
    """Return the stalls of one partition. `events`: (processed at, produced at) of each of its records."""
    groups = groupby(sorted(events), key=lambda e: e[0])
    return between([(at, min(made for _, made in group)) for at, group in groups])


def between(processings: Sequence[tuple[float, float]]) -> list[MeasuredStall]:
    """Return the stalls between a partition's processings, in order. Each: (time, production of the oldest record)."""
    oldest_left = inf
    found: list[MeasuredStall] = []
    for index in range(len(processings) - 1, -1, -1):
        at, made = processings[index]
        oldest_left = min(oldest_left, made)
        before = processings[index - 1][0] if index else -inf
        found.append(MeasuredStall(max(before, oldest_left), at))
    return found[::-1]


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
    values = sorted(longest_s.get(partition, 0.0) for partition in partitions)
    if not values:
        return Spread(0.0, 0.0, 0)
    middle = len(values) // 2
    median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
    return Spread(round(median * 1000, 1), round(values[-1] * 1000, 1), len(values))
