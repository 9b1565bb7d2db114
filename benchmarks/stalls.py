"""Effects of a hand-off on each partition: stalls, moves, losses and duplicates, from spans of processed offsets. Pure.

Times are seconds of one clock. At every tick of the traffic each partition gets one record, so an offset gives its
record's production time. Stalls are defined in `coordinator_tasks.devstack.demo.stalls`.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from coordinator_tasks.devstack.demo.stalls import MeasuredStall, between, lengths_s, longest


class Span(NamedTuple):
    """Offsets from `first` to `end` (excluded) of a partition, processed at once by one process."""

    at: float
    owner: str
    first: int
    end: int


class Window(NamedTuple):
    from_at: float
    to_at: float


@dataclass(frozen=True, slots=True)
class Flow:
    """The record with the offset `base + n` of every partition was produced at `ticks[n]`."""

    base: int
    ticks: Sequence[float]


@dataclass(frozen=True, slots=True)
class Course:
    """A partition from the first tick to the last.

    `lost` by production, `duplicated` and `changes` of the owner by processing.
    """

    stalls: Sequence[MeasuredStall]
    lost: Sequence[float]
    duplicated: Sequence[float]
    owners: Sequence[tuple[float, str]]

    @property
    def changes(self) -> Sequence[float]:
        return [at for at, _ in self.owners[1:]]

    def owner_at(self, at: float) -> str:
        """Return the last processing owner before; empty = none yet."""
        index = bisect_left(self.owners, (at, ""))
        return self.owners[index - 1][1] if index else ""


def course(flow: Flow, spans: Iterable[Span]) -> Course:
    """Return the course of a partition. Raises `ValueError` for an offset that was never produced.

    Records before the flow belong to an earlier run: a group that ended before its last commit reads the rest again.
    """
    seen = bytearray(len(flow.ticks))
    processings: list[tuple[float, float]] = []
    duplicated: list[float] = []
    owners: list[tuple[float, str]] = []
    for one in sorted(spans):
        begin, end = max(0, one.first - flow.base), one.end - flow.base
        if end <= 0:
            continue
        if not begin < end <= len(seen):
            raise ValueError(f"{one} lies outside of the {len(seen)} records from offset {flow.base} on")
        fresh = [n for n in range(begin, end) if not seen[n]]
        duplicated += [one.at] * (end - begin - len(fresh))
        seen[begin:end] = bytes([1]) * (end - begin)
        if fresh:
            processings.append((one.at, flow.ticks[fresh[0]]))
        if not owners or owners[-1][1] != one.owner:
            owners.append((one.at, one.owner))
    lost = [at for at, found in zip(flow.ticks, seen, strict=True) if not found]
    if lost:
        processings.append((inf, lost[0]))
    return Course(between(processings), lost, duplicated, owners)


@dataclass(frozen=True, slots=True)
class Impact:
    """A change of membership, with the longest stalls in seconds.

    Stalls are of each partition in the event's window, with the same partition's stalls within the undisturbed window;
    `waited` is the sum of each moved partition's stalls.
    """

    moved: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    unmoved: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    waited: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    changes: int = 0
    needless: int = 0
    lost: int = 0
    duplicated: int = 0


def impact(courses: Mapping[int, Course], event: Window, control: Window, scope: Window, fewest: int) -> Impact:
    """Return the impact. `scope`: times of its losses and duplicates; `fewest`: the unavoidable changes."""
    stalls = {partition: one.stalls for partition, one in courses.items()}
    here, quiet = longest(stalls, *event), longest(stalls, *control, within=True)
    waited = {
        p: (sum(lengths_s(some, *event)), sum(lengths_s(some, *control, within=True))) for p, some in stalls.items()
    }
    changes = {partition: _within(one.changes, event) for partition, one in courses.items()}
    pairs = {partition: (here[partition], quiet[partition]) for partition in courses}
    count = sum(changes.values())
    return Impact(
        moved={partition: pair for partition, pair in pairs.items() if changes[partition]},
        unmoved={partition: pair for partition, pair in pairs.items() if not changes[partition]},
        waited={partition: pair for partition, pair in waited.items() if changes[partition]},
        changes=count,
        needless=max(0, count - fewest),
        lost=sum(_within(one.lost, scope) for one in courses.values()),
        duplicated=sum(_within(one.duplicated, scope) for one in courses.values()),
    )


def _within(times: Iterable[float], window: Window) -> int:
    return sum(window.from_at <= at < window.to_at for at in times)


def fewest_moves(owners: Mapping[int, str], *steps: Collection[str]) -> int:
    """Return the minimum number of owner changes for steps with exactly these live consumers and even shares."""
    counts: dict[str, int] = {}
    for owner in owners.values():
        counts[owner] = counts.get(owner, 0) + 1
    moves = 0
    for live in steps:
        held = sorted((counts.get(one, 0) for one in live), reverse=True)
        low, larger = divmod(len(owners), len(live))
        shares = [low + (n < larger) for n in range(len(live))]
        moves += len(owners) - sum(min(pair) for pair in zip(held, shares, strict=True))
        counts = dict(zip(sorted(live, key=lambda one: -counts.get(one, 0)), shares, strict=True))
    return moves
