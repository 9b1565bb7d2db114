"""`balanced` for whole groups: the exact optimum, and the proof of it.

First the decreasingly minimal load vector, then the fewest moves. A partition that several members claim is no move.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from coordinator_tasks.core.assignors.equal import fewest_moves, solve_equal
from coordinator_tasks.core.assignors.flow import Flow
from coordinator_tasks.core.assignors.group import Assignment, Group
from coordinator_tasks.core.assignors.layout import (
    NOBODY,
    Claims,
    Layout,
    Numbers,
    assignment_of,
    by_owner,
    claims_of,
    layout_of,
)


class Proof(StrEnum):
    """Why no assignment is better."""

    CLOSED_FORM = "closed form"  # equal subscriptions
    BOUND = "bound"  # as good as if everybody subscribed to everything
    SEARCH = "search"  # no better hand-over path and no cycle that saves a move


@dataclass(frozen=True, slots=True)
class Solution:
    """`owner` per partition of the layout, how many owned partitions moved, and why that is the optimum."""

    layout: Layout
    owner: Numbers
    moves: int
    proof: Proof


class GroupBalanced:
    """See the module."""

    def assign(self, group: Group) -> Assignment:
        """O(partitions) for equal subscriptions; for mixed ones O(members · topics) per search, few of them usually."""
        solution = solve(group)
        return assignment_of(group, solution.layout, solution.owner)


def solve(group: Group) -> Solution:
    """The optimum as arrays."""
    layout = layout_of(group)
    return solve_arrays(layout, claims_of(group, layout))


def solve_arrays(layout: Layout, claims: Claims) -> Solution:
    """The same from arrays; `claims` hold only what their owners may keep."""
    if layout.subscribed is None:
        owner = solve_equal(claims, len(layout.members)) if layout.members else claims.owner
        proof = Proof.CLOSED_FORM
    else:
        owner, proof = _solve_mixed(layout, layout.subscribed, claims)
    moved = (claims.owner != NOBODY) & (owner != claims.owner)
    return Solution(layout, owner, int(moved.sum()), proof)


def _solve_mixed(layout: Layout, subscribed: np.ndarray, claims: Claims) -> tuple[Numbers, Proof]:
    counts, held = layout.counts, np.flatnonzero(claims.owner != NOBODY)
    topic_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    pairs = claims.owner[held].astype(np.int64) * len(counts) + topic_of[held]
    own = np.bincount(pairs, minlength=subscribed.size).reshape(subscribed.shape).astype(np.int32)
    flow = Flow(subscribed, own, counts)
    flow.fill()
    flow.level()
    proof = Proof.BOUND
    if not _at_bound(flow, own, layout.partitions):
        proof = Proof.SEARCH
        flow.cheapen()
    return _owners(claims, topic_of, own, flow.x), proof


def _at_bound(flow: Flow, own: Numbers, total: int) -> bool:
    moves = flow.moves
    even = int(flow.loads.max() - flow.loads.min()) <= 1
    return moves == 0 or (even and moves == fewest_moves(own.sum(axis=1, dtype=np.int32), total))


def _owners(claims: Claims, topic_of: Numbers, own: Numbers, x: Numbers) -> Numbers:
    """Partition by partition: everybody keeps its first ones, and the rest goes to those who get more than they had."""
    owner = claims.owner.copy()
    held = np.flatnonzero(owner != NOBODY)
    order = held[by_owner(owner[held], len(x))]
    sizes = own[own > 0]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    owner[order[rank >= np.minimum(own, x)[owner[order], topic_of[order]]]] = NOBODY
    need = np.maximum(x - own, 0)
    for partition, member in claims.contested.items():
        topic = topic_of[partition]
        if need[member, topic]:
            owner[partition] = member
            need[member, topic] -= 1
    takers = np.tile(np.arange(len(x), dtype=np.int32), x.shape[1])
    owner[owner == NOBODY] = np.repeat(takers, need.T.ravel())
    return owner
