"""The default strategy: exact balance with the fewest moves, jointly over all topics.

The vector of loads over all topics is decreasingly minimal: no two members differ by more than one partition, as far as
subscriptions and fixed partitions allow. Among all answers with such loads, the strategy moves the fewest partitions
(`quotas`). Which of the movable partitions move is free, so the strategy spreads each topic as evenly as possible.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.quotas import Quotas, quotas_of

NAMES = ("balanced", "sticky", "uniform", "cooperative-sticky")
"""All these names mean this strategy. What distinguishes cooperative-sticky holds for every strategy of the
coordinator: no consumer starts a partition before the former owner has released it.
"""


class Balanced:
    """The default strategy, as the module describes."""

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member; only fixed partitions if there are no members. The members' `loads` count."""
        return self.share((problem,))[0]

    def share(self, problems: Sequence[Problem], ties: Mapping[str, int] | None = None) -> list[Mapping[int, str]]:
        """Return the answer to each problem, balanced over all problems. All problems have the same `loads`: the
        partitions of topics outside these problems.

        `ties`: member → number of its other partitions; among members with equal loads, the smaller number goes first.
        Takes O(partitions + members log members) if every member may have every partition.
        """
        columns = [_Column(one) for one in problems]
        base = Counter(dict(problems[0].loads)) if problems else Counter[str]()
        for column in columns:
            base.update(column.fixed)
        kinds: dict[frozenset[str], list[_Column]] = {}
        for column in sorted(columns, key=lambda one: one.name):
            if column.free and column.problem.members:
                kinds.setdefault(frozenset(column.problem.members), []).append(column)
        kept = {kind: sum((one.kept_by for one in found), Counter()) for kind, found in kinds.items()}
        free = {kind: sum(one.free for one in found) for kind, found in kinds.items()}
        for kind, quotas in quotas_of(Quotas(kept, free, base, ties or {})).items():
            _realize(kinds[kind], kept[kind], quotas)
        return [column.answer for column in columns]


class _Column:
    """A problem (one topic) during the solution. `kept`: member → movable partitions that it may keep, in order."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        listed = set(problem.partitions)
        self.name = (problem.topic, min(problem.partitions, default=0))
        self.answer = {p: m for p, m in problem.fixed.items() if p in listed}
        self.fixed = Counter(self.answer.values())
        self.kept: dict[str, list[int]] = {}
        self.pool: list[int] = []
        for partition in problem.partitions:
            if partition not in self.answer:
                owner = problem.owned.get(partition, "")
                if owner in problem.members:
                    self.kept.setdefault(owner, []).append(partition)
                else:
                    self.pool.append(partition)
        self.kept_by = Counter({member: len(found) for member, found in self.kept.items()})
        self.free = len(self.pool) + self.kept_by.total()
        self.share = len(problem.partitions) / max(1, len(problem.members))

    def has(self, member: str) -> int:
        """Return how many partitions of the topic the member has now."""
        return self.fixed[member] + len(self.kept.get(member, ()))

    def deal(self, needs: dict[str, int]) -> None:
        """Give the pool's partitions to members with a need, and lower `needs`.

        The member with the fewest partitions of this topic gets the next.
        """
        heap = [(self.has(member), -need, member) for member, need in needs.items() if need]
        heapify(heap)
        given = Counter[str]()
        for _ in self.pool:
            count, need, member = heap[0]
            given[member] += 1
            if need < -1:
                heapreplace(heap, (count + 1, need + 1, member))
            else:
                heappop(heap)
        takers = [member for member in sorted(given) for _ in range(given[member])]
        self.answer |= zip(sorted(self.pool), takers, strict=True)
        for member, count in given.items():
            needs[member] -= count
        for member, partitions in self.kept.items():
            self.answer |= dict.fromkeys(partitions, member)


def _realize(columns: Sequence[_Column], kept: Mapping[str, int], quotas: Mapping[str, int]) -> None:
    """Answer problems with the same members. Each member gets its quota over all, and keeps as many as possible."""
    for member, count in sorted(kept.items()):
        _give_up(columns, member, count - quotas[member])
    needs = {member: need for member, quota in quotas.items() if (need := quota - kept.get(member, 0)) > 0}
    for column in columns:
        column.deal(needs)


def _give_up(columns: Sequence[_Column], member: str, surplus: int) -> None:
    """Move `surplus` partitions of the member into the pools, from the topics in which it exceeds its share most.

    Among such topics, the topic with the smallest pool goes first.
    """
    if surplus <= 0:
        return
    heap = [(one.share - one.has(member), len(one.pool), i) for i, one in enumerate(columns) if one.kept.get(member)]
    heapify(heap)
    for _ in range(surplus):
        below, given, i = heappop(heap)
        held = columns[i].kept[member]
        columns[i].pool.append(held.pop())
        if held:
            heappush(heap, (below + 1, given + 1, i))
