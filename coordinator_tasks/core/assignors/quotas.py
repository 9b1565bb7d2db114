"""The number of partitions for each member over all topics: the most even loads, then the fewest moves.

Topics that the same members may have form one kind. If there is a single kind, a formula gives the quotas: every member
keeps partitions up to a level. If kinds have members in common, a flow gives the quotas (`flow`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Kind: TypeAlias = frozenset[str]
"""The members that may have the partitions of this kind."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The movable partitions. `free`: kind → number of partitions. `kept`: kind → member → present number.

    `base`: member → number of fixed partitions. `ties`: member → a number; among equal members, the smaller goes first.
    """

    kept: Mapping[Kind, Counter[str]]
    free: Mapping[Kind, int]
    base: Mapping[str, int]
    ties: Mapping[str, int]


def quotas_of(asked: Quotas) -> dict[Kind, dict[str, int]]:
    """Return kind → member → number of free partitions."""
    found: dict[Kind, dict[str, int]] = {}
    for kinds in _connected(asked):
        found |= {kinds[0]: _of_one_kind(asked, kinds[0])} if len(kinds) == 1 else _of_several(asked, kinds)
    return found


def _connected(asked: Quotas) -> Iterator[list[Kind]]:
    """Yield the kinds in groups. The kinds of a group have members in common, directly or through other kinds."""
    groups: list[tuple[set[str], list[Kind]]] = []
    for kind in asked.free:
        touched = [one for one in groups if not one[0].isdisjoint(kind)]
        groups = [one for one in groups if one[0].isdisjoint(kind)]
        members = set(kind).union(*(one[0] for one in touched))
        groups.append((members, [*(k for one in touched for k in one[1]), kind]))
    for _, kinds in groups:
        yield sorted(kinds, key=sorted)


def _of_one_kind(asked: Quotas, kind: Kind) -> dict[str, int]:
    """Return the quotas: every member is raised to the largest possible level, and some members get one partition more.

    Members that would otherwise give a partition away are the first to get one more.
    """
    base, kept, free = {m: asked.base.get(m, 0) for m in kind}, asked.kept[kind], asked.free[kind]
    level = _level(sorted(base.values()), free)
    quota = {member: max(0, level - fixed) for member, fixed in base.items()}
    left = free - sum(quota.values())
    at_level = [m for m in kind if base[m] <= level]
    at_level.sort(key=lambda m: (kept[m] <= quota[m], asked.ties.get(m, 0), m))
    for member in at_level[:left]:
        quota[member] += 1
    return quota


def _level(fixed: list[int], free: int) -> int:
    """Return the largest level to which `free` partitions can raise all members. `fixed`: ascending."""
    level, below = fixed[0], 0
    for count in fixed:
        need = (count - level) * below
        if need > free:
            break
        free -= need
        level, below = count, below + 1
    return level + free // below


def _of_several(asked: Quotas, kinds: list[Kind]) -> dict[Kind, dict[str, int]]:
    members = sorted(frozenset().union(*kinds))
    loads = [asked.base.get(m, 0) + sum(asked.kept[kind][m] for kind in kinds) for m in members]
    settled = all(asked.kept[kind].total() == asked.free[kind] for kind in kinds)
    if settled and max(loads) - min(loads) <= 1:
        return {kind: {m: asked.kept[kind][m] for m in kind} for kind in kinds}
    # Importing numpy takes a tenth of a second, too long for plans with equal subscriptions.
    from coordinator_tasks.core.assignors.flow import fewest_moves_of  # noqa: PLC0415

    place = {member: i for i, member in enumerate(members)}
    found = fewest_moves_of(
        [{place[m]: asked.kept[kind][m] for m in sorted(kind)} for kind in kinds],
        [asked.free[kind] for kind in kinds],
        [asked.base.get(m, 0) for m in members],
    )
    return {kind: {members[i]: count for i, count in found[k].items()} for k, kind in enumerate(kinds)}
