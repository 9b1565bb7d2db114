"""The partitions of a `weighted` problem as arrays of weights and owners.

A pass over arrays is much faster than over a hundred thousand Python objects.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.parameters import Rules
from coordinator_tasks.core.assignors.weights import Measure
from coordinator_tasks.core.errors import BadStrategy

NOBODY = ""
NEGLIGIBLE = 1e-9  # a smaller share of the largest number counts as 0: sums cannot resolve it
MOST = 1e300  # the sum of a million such weights is still finite
_ELSEWHERE, _NOBODYS, _FIRST = 0, 1, 2  # owners as numbers: a member without a seat, nobody, and the first seat

Floats = NDArray[np.float64]
V = TypeVar("V")


class PartitionTable:
    """One row for each partition, in numerical order.

    - `placed`: partition → member or `NOBODY`. A member without a seat has only fixed partitions.
    - `carried`: member → its load of other topics; 0 if negligible.
    """

    def __init__(self, problem: Problem, rules: Rules, seats: Sequence[str]) -> None:
        self.placed = _placed(problem)
        count = len(self.placed)
        last = next(reversed(self.placed), -1)
        # Numbers almost always begin at 0 and have no gaps.
        self._at: Mapping[int, int] | range = range(count)
        self._numbers = np.arange(count)
        if last != count - 1:
            self._at = {p: row for row, p in enumerate(self.placed)}
            self._numbers = np.fromiter(self.placed, np.int64, count)
        self._seats = seats
        self._owner_of = {NOBODY: _NOBODYS, **{m: _FIRST + i for i, m in enumerate(seats)}}
        self._fixed = np.zeros(count, np.bool_)
        self._fixed[[self._at[p] for p in problem.fixed if p in self.placed]] = True
        self._owners = np.fromiter(map(self._owner_of.get, self.placed.values(), repeat(_ELSEWHERE)), np.int32, count)
        self._evict_the_seatless()
        self._each = rules.each
        self._measured = self._weighed(problem, rules)
        carried = _carried(problem, rules)
        least = NEGLIGIBLE * max(self._measured.max(initial=0.0), rules.each, *carried.values())
        self._measured[self._measured < least] = 0.0
        self.carried = {m: one if one >= least else 0.0 for m, one in carried.items()}
        self._weights = self._measured + rules.each
        self._listed: list[float] = self._weights.tolist()

    def _evict_the_seatless(self) -> None:
        wrong = np.flatnonzero((self._owners == _ELSEWHERE) & ~self._fixed)
        self._owners[wrong] = _NOBODYS
        self.placed.update(dict.fromkeys(self._numbers[wrong].tolist(), NOBODY))

    def _weighed(self, problem: Problem, rules: Rules) -> Floats:
        """Return each partition's weight; if unknown, the mean of the known weights. Raises `BadStrategy`.

        If no weight is known and the rules add none, each partition weighs 1.
        """
        given = {**problem.weights, **rules.weights} if rules.weights else problem.weights
        weights = np.fromiter(map(given.get, self.placed, repeat(math.nan)), np.float64, len(self.placed))
        doubtful = ~((weights >= 0) & (weights <= MOST))
        wrong = [p for p in self._numbers[doubtful].tolist() if p in given]
        if wrong:
            said = f"partition {wrong[0]} of topic {problem.topic} weighs {given[wrong[0]]}"
            raise BadStrategy(f"{said}, which is no number from 0 on")
        known = weights[~doubtful].tolist() if doubtful.any() else []
        weights[doubtful] = math.fsum(known) / len(known) if known else 0.0 if rules.each else 1.0
        return weights

    def weight(self, partition: int) -> float:
        return self._listed[self._at[partition]]

    def counts(self) -> dict[str, int]:
        """Return seat or `NOBODY` → its number of partitions."""
        return self._by_owner(np.bincount(self._owners, minlength=_FIRST + len(self._seats)).tolist())

    def loads(self) -> dict[str, float]:
        """Return seat or `NOBODY` → the weight of its partitions."""
        sums = np.bincount(self._owners, self._measured, _FIRST + len(self._seats)).tolist()
        counts = self.counts()
        return {m: one + self._each * counts[m] for m, one in self._by_owner(sums).items()}

    def _by_owner(self, figures: list[V]) -> dict[str, V]:
        return dict(zip(self._owner_of, figures[_NOBODYS:], strict=True))

    def of_nobody(self) -> tuple[list[int], list[float]]:
        """Return the partitions without an owner, the heaviest first, and their weights."""
        rows = np.flatnonzero(self._owners == _NOBODYS)
        rows = rows[np.argsort(-self._weights[rows], kind="stable")]
        return self._numbers[rows].tolist(), self._weights[rows].tolist()

    def movable(self, members: Iterable[str]) -> dict[str, tuple[list[int], list[float]]]:
        """Return seat → its movable partitions, the lightest first, and their weights."""
        owners = sorted(self._owner_of[m] for m in members)
        wanted = np.zeros(_FIRST + len(self._seats), np.bool_)
        wanted[owners] = True
        rows = np.flatnonzero(wanted[self._owners] & ~self._fixed)
        rows = rows[np.lexsort((self._weights[rows], self._owners[rows]))]
        numbers, weights = self._numbers[rows].tolist(), self._weights[rows].tolist()
        ends = np.searchsorted(self._owners[rows], owners, side="right").tolist()
        parts = pairwise([0, *ends])
        return {
            self._seats[owner - _FIRST]: (numbers[begin:end], weights[begin:end])
            for owner, (begin, end) in zip(owners, parts, strict=True)
        }

    def place(self, partition: int, member: str) -> None:
        self.placed[partition] = member
        self._owners[self._at[partition]] = self._owner_of[member]

    def deal(self, partitions: Sequence[int], seats: Sequence[int]) -> None:
        """Set the new owners of many partitions; `seats` are indexes."""
        self.placed.update(zip(partitions, map(self._seats.__getitem__, seats), strict=True))
        self._owners[[self._at[p] for p in partitions]] = np.array(seats, np.int32) + _FIRST


def _placed(problem: Problem) -> dict[int, str]:
    """Return partition → owner for every partition of the problem, in order."""
    placed = dict.fromkeys(sorted(problem.partitions), NOBODY)
    listed = len(placed)
    placed.update(problem.owned)
    placed.update(problem.fixed)
    if len(placed) > listed:
        wanted = set(problem.partitions)
        placed = {p: m for p, m in placed.items() if p in wanted}
    return placed


def _carried(problem: Problem, rules: Rules) -> dict[str, float]:
    """Return member → its load of other topics. Each partition there has the same added weight as in this topic."""
    if rules.measure is Measure.PARTITIONS:
        return {m: one * (rules.each or 1.0) for m, one in problem.carried.items()}
    return {m: one + rules.each * problem.loads.get(m, 0) for m, one in problem.carried.items()}
