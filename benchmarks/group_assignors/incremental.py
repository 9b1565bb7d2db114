"""A kept assignment that takes joins and leaves: each answer is the change, as good as a new plan.

With equal subscriptions a change costs O(members + moves), whatever the number of partitions; with mixed subscriptions
it is solved from the present owners, as arrays. New topics or partitions need a new plan.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from benchmarks.group_assignors.equal import settle
from benchmarks.group_assignors.layout import NOBODY, Claims, Layout, assignment_of, by_owner
from benchmarks.group_assignors.optimum import solve, solve_arrays
from coordinator_tasks.core.assignors.cycles import Numbers
from coordinator_tasks.core.assignors.group import Assignment, Group, GroupMember

Held = dict[str, list[int]]
"""Member → numbers of partitions in the layout."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The moves of a change: losses of present members, and gains; partitions of leavers are gains only."""

    given_up: Held = field(default_factory=dict)
    got: Held = field(default_factory=dict)


class Plan:
    """The optimal assignment of a group.

    `layout` numbers the partitions. A partition without a subscriber has no owner until a subscriber joins.
    """

    def __init__(self, group: Group) -> None:
        solution = solve(group)
        self.layout = solution.layout
        self._members = list(self.layout.members)
        self._owner: Numbers | None = None
        self._held: list[list[int]] = []
        self._free: list[int] = []
        if self.layout.subscribed is None:
            self._held = _held(solution.owner, len(self._members))
        else:
            self._owner = solution.owner

    def change(self, joined: Mapping[str, frozenset[str]], left: Iterable[str] = ()) -> Delta:
        """Add the joiners, by id with their subscriptions, and remove the leavers.

        Topics outside of the layout are ignored, and so are present joiners and absent leavers. A member that leaves
        and joins at once is a new member.
        """
        known = frozenset(self.layout.topics)
        gone = set(left)
        there = set(self._members) - gone if joined else set()
        able = {m: topics for m, topics in joined.items() if m not in there and not known.isdisjoint(topics)}
        if self._owner is None and all(known <= topics for topics in able.values()):
            return self._change_equal(able, gone)
        return self._change_mixed(self._owners(), able, gone)

    def assignment(self) -> Assignment:
        """Return the whole assignment, by members and topics."""
        members = dict.fromkeys(self._members, GroupMember(frozenset()))
        layout = Layout(self.layout.topics, tuple(self._members), self.layout.starts, None)
        return assignment_of(Group({}, members), layout, self._owners())

    def _owners(self) -> Numbers:
        if self._owner is not None:
            return self._owner
        owner = np.full(self.layout.partitions, NOBODY, np.int32)
        for member, partitions in enumerate(self._held):
            owner[partitions] = member
        return owner

    def _change_equal(self, joined: Iterable[str], gone: set[str]) -> Delta:
        pool, self._free = self._free, []
        for member in sorted((m for m, name in enumerate(self._members) if name in gone), reverse=True):
            pool += self._held.pop(member)
            del self._members[member]
        for name in joined:
            self._members.append(name)
            self._held.append([])
        if not self._members:
            self._free = pool
            return Delta()
        given_up, got = settle(self._held, pool, self.layout.partitions)
        names = self._members
        return Delta({names[m]: lost for m, lost in given_up.items()}, {names[m]: gain for m, gain in got.items()})

    def _change_mixed(self, owner: Numbers, joined: Mapping[str, frozenset[str]], gone: set[str]) -> Delta:
        topics = self.layout.topics
        stay = [m for m, name in enumerate(self._members) if name not in gone]
        before = self.layout.subscribed
        rows = np.ones((len(stay), len(topics)), np.bool_) if before is None else before[stay]
        new = np.array([[t in wanted for t in topics] for wanted in joined.values()], np.bool_)
        new_place = np.full(len(self._members) + 1, NOBODY, np.int32)  # NOBODY, -1, finds the last entry
        new_place[stay] = np.arange(len(stay))
        owner = new_place[owner]
        self._members = [self._members[m] for m in stay] + list(joined)
        subscribed = np.concatenate([rows, new.reshape(len(joined), len(topics))])
        self.layout = Layout(topics, tuple(self._members), self.layout.starts, subscribed)
        self._owner = solve_arrays(self.layout, Claims(owner)).owner
        self._held, self._free = [], []
        return self._difference(owner, self._owner)

    def _difference(self, before: Numbers, after: Numbers) -> Delta:
        delta = Delta()
        moved = np.flatnonzero(before != after)
        for partition, giver, taker in zip(moved.tolist(), before[moved].tolist(), after[moved].tolist(), strict=True):
            if giver != NOBODY:
                delta.given_up.setdefault(self._members[giver], []).append(partition)
            delta.got.setdefault(self._members[taker], []).append(partition)
        return delta


def _held(owner: Numbers, members: int) -> list[list[int]]:
    ends = np.cumsum(np.bincount(owner, minlength=members)).tolist()
    numbers = by_owner(owner, members).tolist()
    return [numbers[begin:end] for begin, end in pairwise([0, *ends])]
