"""A group as arrays: partitions of all topics numbered in a row, members by number, and the owners.

A million partitions as Python objects are slow and large; as arrays they are 4 MB. Partition p of topic t has the
number `starts[t] + p`; topics and members are numbered in the order of their names, so that the order of input does not
matter.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from coordinator_tasks.core.assignors.cycles import Flags, Numbers
from coordinator_tasks.core.assignors.group import Assignment, Group

Places = NDArray[np.int32 | np.int64]

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Layout:
    """Topics and members.

    - `topics`: topics with partitions and a subscriber; `starts[t]` is the number of the first partition of topic t, and the
      last entry of `starts` the number of all partitions.
    - `members`: subscribers of any of these topics.
    - `subscribed`: [member, topic]; None when every member subscribes to every topic.
    """

    topics: tuple[str, ...]
    members: tuple[str, ...]
    starts: Numbers
    subscribed: Flags | None

    @property
    def partitions(self) -> int:
        return int(self.starts[-1])

    @property
    def counts(self) -> Numbers:
        """Partitions of each topic."""
        return np.diff(self.starts)


@dataclass(frozen=True, slots=True)
class Claims:
    """Previous ownership.

    - `owner`: partition → the only claimant with the right to keep the partition, or NOBODY.
    - `contested`: partition with several claimants → the claimant of the newest generation. Passing over it is no move.
    """

    owner: Numbers
    contested: Mapping[int, int] = field(default_factory=dict)


def layout_of(group: Group) -> Layout:
    """The group's layout."""
    wanted = frozenset().union(*{m.topics for m in group.members.values()})
    topics = tuple(sorted(t for t in wanted if group.topics.get(t, 0) > 0))
    known = frozenset(topics)
    members = tuple(sorted(m for m, v in group.members.items() if not known.isdisjoint(v.topics)))
    starts = np.array([0, *accumulate(group.topics[t] for t in topics)], np.int32)
    kinds = {group.members[m].topics for m in members}
    if all(known <= kind for kind in kinds):
        return Layout(topics, members, starts, None)
    rows = {kind: np.fromiter((t in kind for t in topics), np.bool_, len(topics)) for kind in kinds}
    return Layout(topics, members, starts, np.array([rows[group.members[m].topics] for m in members]))


def claims_of(group: Group, layout: Layout) -> Claims:
    """Return the valid claims: of subscribed topics, on existing partitions. O(claims)."""
    owner = np.full(layout.partitions, NOBODY, np.int32)
    numbers, claimant = _claimed(group, layout)
    if not len(numbers):
        return Claims(owner)
    owner[numbers] = claimant
    if len(numbers) == int((owner != NOBODY).sum()):
        return Claims(owner)
    numbers, claimant = np.unique(np.stack([numbers, claimant]), axis=1)  # a member may list a partition twice
    alone = np.bincount(numbers, minlength=layout.partitions)[numbers] == 1
    owner[numbers[~alone]] = NOBODY
    newest: dict[int, tuple[int, int]] = {}
    for number, member in zip(numbers[~alone].tolist(), claimant[~alone].tolist(), strict=True):
        rank = (-group.members[layout.members[member]].generation, member)
        newest[number] = min(newest.get(number, rank), rank)
    return Claims(owner, {number: rank[1] for number, rank in sorted(newest.items())})


def _claimed(group: Group, layout: Layout) -> tuple[Places, Places]:
    """Return the numbers of all claimed partitions, and the claimants.

    In a long array, since many short arrays are slow.
    """
    place = {topic: i for i, topic in enumerate(layout.topics)}
    listed: list[int] = []
    sizes, topics, members = [], [], []
    for i, name in enumerate(layout.members):
        member = group.members[name]
        for topic, partitions in member.owned.items():
            if topic in place and topic in member.topics:
                listed += partitions
                sizes.append(len(partitions))
                topics.append(place[topic])
                members.append(i)
    if not listed:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    found: Places = np.frombuffer(struct.pack(f"{len(listed)}q", *listed), np.int64)  # half the time of np.array
    claimant = np.repeat(np.array(members), sizes)
    count, start = np.repeat(layout.counts[topics], sizes), np.repeat(layout.starts[topics], sizes)
    exists = (found >= 0) & (found < count)
    return (found + start, claimant) if exists.all() else ((found + start)[exists], claimant[exists])


def assignment_of(group: Group, layout: Layout, owner: Numbers) -> Assignment:
    """The answer in the group's own terms. O(partitions)."""
    answer: Assignment = {member: {} for member in group.members}
    order = by_owner(owner, len(layout.members))[int((owner == NOBODY).sum()) :]
    if not len(order):
        return answer
    topic_of = np.repeat(np.arange(len(layout.topics), dtype=np.int32), layout.counts)[order]
    partitions = (order - layout.starts[topic_of]).tolist()
    owners = owner[order]
    changes = np.flatnonzero((owners[1:] != owners[:-1]) | (topic_of[1:] != topic_of[:-1])) + 1
    ends = [*changes.tolist(), len(partitions)]
    firsts = np.concatenate([[0], changes])
    mine = [answer[m] for m in layout.members]
    names, begin = layout.topics, 0
    for member, topic, end in zip(owners[firsts].tolist(), topic_of[firsts].tolist(), ends, strict=True):
        mine[member][names[topic]] = partitions[begin:end]
        begin = end
    return answer


def by_owner(owner: Numbers, members: int) -> Places:
    """Partitions sorted by owner, then number; numpy sorts 16-bit keys in linear time."""
    return np.argsort(owner.astype(np.int16) if members < np.iinfo(np.int16).max else owner, kind="stable")
