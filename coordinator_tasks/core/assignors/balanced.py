"""The default strategy balances exactly, with the fewest moves, jointly over all topics.

The load vector over all topics is decreasingly minimal: no two members differ by more than a partition, as far as
subscriptions and fixed partitions allow. Among all minimal answers, the strategy moves as few partitions as possible
(`quotas`). The choice among movable partitions is free, so the strategy spreads each topic as evenly as possible.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.quotas import Quotas, quotas_of

NAMES = ("balanced", "sticky", "uniform", "cooperative-sticky")
"""All these names mean this strategy. The coordinator gives every strategy what distinguishes cooperative-sticky: no
consumer starts a partition before its owner has released the partition."""


class Balanced:
    """See the module."""

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member. Without members, return only fixed partitions. The members' `loads` count."""
        return self.share((problem,))[0]

    def share(self, problems: Sequence[Problem], ties: Mapping[str, int] | None = None) -> list[Mapping[int, str]]:
        """Return the answer to each problem, balanced over all problems. Every problem has the same `loads`, which
        count further topics.

        `ties`: member → number of its other partitions; among equal loads, the member with fewer goes first. Takes
        O(partitions + members log members) if every member may have every partition.
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
    """A problem during its solution. `kept`: member → keepable free partitions, in order."""

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
        """Return the member's present number of partitions."""
        return self.fixed[member] + len(self.kept.get(member, ()))

    def deal(self, needs: dict[str, int]) -> None:
        """Give the pool to members in need and lower `needs`.

        The member with the fewest partitions of this topic goes first.
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
    """Answer problems of the same members. Each member gets a quota over all problems, and keeps as much as possible."""
    for member, count in sorted(kept.items()):
        _give_up(columns, member, count - quotas[member])
    needs = {member: need for member, quota in quotas.items() if (need := quota - kept.get(member, 0)) > 0}
    for column in columns:
        column.deal(needs)


def _give_up(columns: Sequence[_Column], member: str, surplus: int) -> None:
    """Move `surplus` partitions of the member into the pools, from the topics furthest above the member's share.

    Among equal topics, prefer the topic with the smallest pool.
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
