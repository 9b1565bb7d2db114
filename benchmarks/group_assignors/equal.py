"""The exact optimum in closed form where every member subscribes to every topic.

With P partitions and M members, q = P // M and r = P % M, the decreasingly minimal load vector has r members with q + 1
and the others with q. A member at or below its quota keeps everything, so the fewest moves follow from giving the r
larger quotas to members with more than q, as far as possible.
"""

from itertools import filterfalse

import numpy as np

from benchmarks.group_assignors.layout import NOBODY, Claims, Layout, by_owner
from coordinator_tasks.core.assignors.cycles import Numbers
from coordinator_tasks.core.assignors.flow import quotas
from coordinator_tasks.core.assignors.group import Assignment, Group


def solve_equal(claims: Claims, members: int) -> Numbers:
    """The new owner of each partition. O(partitions)."""
    owner = claims.owner.copy()
    counts = np.bincount(owner + 1, minlength=members + 1)[1:].astype(np.int32)
    quota = quotas(counts, len(owner))
    if (counts > quota).any():
        _release(owner, counts, quota)
    need = np.maximum(quota - counts, 0)
    for partition, member in claims.contested.items():
        if need[member]:
            owner[partition] = member
            need[member] -= 1
    free = np.flatnonzero(owner == NOBODY)
    if len(free):
        owner[free] = deal(need)
    return owner


def _release(owner: Numbers, counts: Numbers, quota: Numbers) -> None:
    """Take the surplus above its quota from each member, its last partitions first."""
    over = np.append(counts > quota, False)  # NOBODY, -1, finds the last entry
    theirs = np.flatnonzero(over[owner])
    order = theirs[by_owner(owner[theirs], len(counts))]
    held = counts[over[:-1]]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(held) - held, held)
    owner[order[rank >= np.repeat(quota[over[:-1]], held)]] = NOBODY


def deal(need: Numbers) -> Numbers:
    """Return members in turn, each as often as needed: topics are spread over members rather than given to one."""
    takers = np.flatnonzero(need).astype(np.int32)
    wanted = need[takers]
    least = int(wanted.min())
    if int(wanted.max()) - least <= 1:
        return np.concatenate([np.tile(takers, least), takers[wanted > least]])
    turn = np.arange(int(wanted.sum())) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    return np.repeat(takers, wanted)[np.argsort(turn, kind="stable")]


def dealt(group: Group, layout: Layout) -> Assignment:
    """Return the answer without any present owner; the same as by arrays, and twice as fast."""
    answer: Assignment = {member: {} for member in group.members}
    members = len(layout.members)
    twice = [answer[m] for m in layout.members] * 2
    turn = 0
    for topic in layout.topics:
        count = group.topics[topic]
        for first, mine in enumerate(twice[turn : turn + min(count, members)]):
            mine[topic] = list(range(first, count, members)) if count > members else [first]
        turn = (turn + count) % members
    return answer


def settle(held: list[list[int]], pool: list[int], total: int) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Bring every member's list to its quota, in place; `pool`: partitions without an owner, `total`: number of all.

    Returns the members' losses and gains, by the members' places. O(members + moves).
    """
    given_up, got = {}, {}
    counts = np.array([len(mine) for mine in held], np.int32)
    quota = quotas(counts, total)
    change = quota - counts
    givers = np.flatnonzero(change < 0)
    for member, keep in zip(givers.tolist(), quota[givers].tolist(), strict=True):
        mine = held[member]
        given_up[member] = surplus = mine[keep:]
        pool += surplus
        del mine[keep:]
    takers = np.flatnonzero(change > 0)
    begin = 0
    for member, units in zip(takers.tolist(), change[takers].tolist(), strict=True):
        got[member] = share = pool[begin : begin + units]
        held[member] += share
        begin += units
    return given_up, got


def settled(group: Group, layout: Layout) -> Assignment | None:
    """Return the answer for one topic, without arrays, useful only for several; None if claims clash or do not exist."""
    (topic,), total = layout.topics, layout.partitions
    held = [sorted(group.members[m].owned.get(topic, ())) for m in layout.members]
    seen = set().union(*held)
    if len(seen) != sum(map(len, held)) or any(mine and (mine[0] < 0 or mine[-1] >= total) for mine in held):
        return None
    pool = list(filterfalse(seen.__contains__, range(total))) if len(seen) < total else []
    _, got = settle(held, pool, total)
    for member in got:
        held[member].sort()
    answer: Assignment = {member: {} for member in group.members}
    for name, mine in zip(layout.members, held, strict=True):
        if mine:
            answer[name][topic] = mine
    return answer
