"""The default strategy: exactly balanced, with the fewest moves, for one topic.

The load vector is decreasingly minimal: no two members differ by more than one, as far as fixed partitions allow.
Among such answers, this one changes the owner of as few partitions as possible. Ties go to the member with fewer
partitions of other topics, then to the smaller id. It is a closed form: every member keeps partitions up to a quota.
"""

from collections.abc import Mapping

from coordinator_tasks.core.assignors.problem import Problem


class Balanced:
    """See the module."""

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Partition → member; only the fixed ones when there are no members. O(partitions + members log members)."""
        listed = set(problem.partitions)
        answer = {p: m for p, m in problem.fixed.items() if p in listed}
        if not problem.members:
            return answer
        kept = _owned_by_member(problem)
        quota = _quotas(problem, kept)
        spare: list[str] = []
        for member in sorted(problem.members, key=lambda m: (problem.loads.get(m, 0), m)):
            room = quota[member]
            for partition in kept[member][:room]:
                answer[partition] = member
            spare += [member] * max(0, room - len(kept[member]))
        free = [p for p in problem.partitions if p not in answer]
        return answer | dict(zip(free, spare, strict=True))


def _owned_by_member(problem: Problem) -> dict[str, list[int]]:
    """Member → the partitions that it could keep, in order, without the fixed ones."""
    kept: dict[str, list[int]] = {member: [] for member in problem.members}
    for partition in problem.partitions:
        owner = problem.owned.get(partition)
        if owner in kept and partition not in problem.fixed:
            kept[owner].append(partition)
    return kept


def _quotas(problem: Problem, kept: Mapping[str, list[int]]) -> dict[str, int]:
    """Member → how many partitions it gets beside its fixed ones.

    The level is the largest number that every member can have, fixed ones included. The remaining partitions go, one
    each, to members at the level, first to those that would otherwise give one away.
    """
    base = dict.fromkeys(problem.members, 0)
    for member in problem.fixed.values():
        if member in base:
            base[member] += 1
    free = sum(1 for p in problem.partitions if p not in problem.fixed)
    level = _level(sorted(base.values()), free)
    quota = {member: max(0, level - fixed) for member, fixed in base.items()}
    left = free - sum(quota.values())
    at_level = [m for m in base if base[m] <= level]
    at_level.sort(key=lambda m: (len(kept[m]) <= quota[m], problem.loads.get(m, 0), m))
    for member in at_level[:left]:
        quota[member] += 1
    return quota


def _level(fixed: list[int], free: int) -> int:
    """The largest level to which `free` partitions raise all members, given their ascending fixed counts."""
    level, below = fixed[0], 0
    for count in fixed:
        need = (count - level) * below
        if need > free:
            break
        free -= need
        level, below = count, below + 1
    return level + free // below
