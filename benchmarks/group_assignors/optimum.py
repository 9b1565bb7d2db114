"""`balanced` for whole groups: the exact optimum, and its proof.

First the decreasingly minimal load vector, then the fewest moves. A partition with several claimants is no move.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchmarks.group_assignors.equal import dealt, settled, solve_equal
from benchmarks.group_assignors.layout import (
    NOBODY,
    Claims,
    Layout,
    Places,
    assignment_of,
    by_owner,
    claims_of,
    layout_of,
)
from coordinator_tasks.core.assignors.cycles import Flags, Numbers
from coordinator_tasks.core.assignors.flow import Flow
from coordinator_tasks.core.assignors.group import Assignment, Group


class Proof(StrEnum):
    """Why no assignment is better."""

    CLOSED_FORM = "closed form"  # equal subscriptions
    BOUND = "bound"  # as good as if everybody subscribed to everything
    SEARCH = "search"  # no better hand-over path and no cycle that saves a move


@dataclass(frozen=True, slots=True)
class Solution:
    """`owner` per partition of the layout, the number of moved partitions, and the proof."""

    layout: Layout
    owner: Numbers
    moves: int
    proof: Proof


class GroupBalanced:
    """See the module."""

    def assign(self, group: Group) -> Assignment:
        """O(partitions) for equal subscriptions; for mixed subscriptions O(members · topics) per search, usually few."""
        layout = layout_of(group)
        if layout.subscribed is None and not any(m.owned for m in group.members.values()):
            return dealt(group, layout)
        if layout.subscribed is None and len(layout.topics) == 1 and (answer := settled(group, layout)):
            return answer
        solution = solve_arrays(layout, claims_of(group, layout))
        return assignment_of(group, layout, solution.owner)


def solve(group: Group) -> Solution:
    """The optimum as arrays."""
    layout = layout_of(group)
    return solve_arrays(layout, claims_of(group, layout))


def solve_arrays(layout: Layout, claims: Claims) -> Solution:
    """Solve from arrays; `claims` hold only keepable partitions. Topics without a subscriber stay unchanged."""
    if layout.subscribed is None or not layout.members:
        owner = solve_equal(claims, len(layout.members)) if layout.members else claims.owner
        proof = Proof.CLOSED_FORM
    else:
        owner, proof = _solve_mixed(layout, layout.subscribed, claims)
    moved = (claims.owner != NOBODY) & (owner != claims.owner)
    return Solution(layout, owner, int(moved.sum()), proof)


def _solve_mixed(layout: Layout, subscribed: Flags, claims: Claims) -> tuple[Numbers, Proof]:
    counts, held = layout.counts, np.flatnonzero(claims.owner != NOBODY)
    topic_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    pairs = claims.owner[held].astype(np.int64) * len(counts) + topic_of[held]
    own = np.bincount(pairs, minlength=subscribed.size).reshape(subscribed.shape).astype(np.int32)
    flow = Flow(subscribed, own, counts)
    proof = Proof.SEARCH if flow.solve() else Proof.BOUND
    return _owners(claims, topic_of, own, flow.x), proof


def _owners(claims: Claims, topic_of: Numbers, own: Numbers, x: Numbers) -> Numbers:
    """Assign partition by partition: members keep their first partitions, and the rest goes to gaining members."""
    owner = claims.owner.copy()
    less = np.append(x < own, np.zeros((1, x.shape[1]), np.bool_), axis=0)  # NOBODY, -1, finds the last row
    cut = np.flatnonzero(less[owner, topic_of])
    if len(cut):
        order = cut[by_owner(owner[cut], len(x))]
        pairs = owner[order], topic_of[order]
        changed = np.flatnonzero((np.diff(pairs[0]) != 0) | (np.diff(pairs[1]) != 0)) + 1
        first = np.zeros(len(order), np.int64)
        first[changed] = changed
        rank = np.arange(len(order)) - np.maximum.accumulate(first)
        owner[order[rank >= x[pairs]]] = NOBODY
    takers, topics = np.nonzero(x > own)
    need = x[takers, topics] - own[takers, topics]
    if claims.contested:
        _to_claimants(claims, owner, topic_of, takers, topics, need)
    order = np.argsort(topics, kind="stable")
    covered: Flags = x.sum(axis=0) > 0
    owner[(owner == NOBODY) & covered[topic_of]] = np.repeat(takers[order], need[order])
    return owner


def _to_claimants(
    claims: Claims, owner: Numbers, topic_of: Numbers, takers: Places, topics: Places, need: Numbers
) -> None:
    """Give contested partitions to the newest claimant where this costs nothing."""
    place = {pair: i for i, pair in enumerate(zip(takers.tolist(), topics.tolist(), strict=True))}
    for partition, member in claims.contested.items():
        i = place.get((member, int(topic_of[partition])))
        if i is not None and need[i]:
            owner[partition] = member
            need[i] -= 1
