"""The strategies of RocketMQ's client (`AllocateMessageQueue...`), topic by topic, with members ordered by id.

All strategies ignore present owners. RocketMQ's message queue is a partition here. The room of a queue's broker is the
rack of the partition's preferred leader.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator_tasks.core.assignors.group import Assignment, Group, contiguous, java_order
from coordinator_tasks.core.grouped import grouped

Allocate = Callable[[str, Sequence[int], Sequence[str]], Iterable[str]]
"""Maps a topic, its ordered partitions and its ordered members to a member for each partition."""

VIRTUAL_NODES = 10
"""Number of points of each member on the ring, as in RocketMQ."""


def per_topic(allocate: Allocate, group: Group) -> Assignment:
    """Plan each topic separately, among its subscribers. Takes as long as `allocate` for each topic."""
    answer: Assignment = {member: {} for member in group.members}
    for topic, members in group.subscribers().items():
        partitions = range(group.topics[topic])
        owners = allocate(topic, partitions, sorted(members, key=java_order))
        _add(answer, topic, zip(partitions, owners, strict=True))
    return answer


def machine_room(group: Group) -> Assignment:
    """Give partitions to members in the same room. If a room has no member, all members share its partitions.

    RocketMQ refuses queues and members whose room is unknown. Here all members share a partition of an unknown room,
    and a member of an unknown room gets only shared partitions. Takes as long as `average` for each room of each topic.
    """
    answer: Assignment = {member: {} for member in group.members}
    for topic, unordered in group.subscribers().items():
        members = sorted(unordered, key=java_order)
        inhabitants = grouped((rack, member) for member in members if (rack := group.members[member].rack))
        for room, partitions in _rooms(group, topic).items():
            owners = average(topic, partitions, inhabitants.get(room, members))
            _add(answer, topic, zip(partitions, owners, strict=True))
    for topics in answer.values():
        for listed in topics.values():
            listed.sort()
    return answer


def average(_topic: str, partitions: Sequence[int], members: Sequence[str]) -> Iterable[str]:
    """Yield contiguous ranges; the first are longer by one (`AllocateMessageQueueAveragely`)."""
    for member, (start, end) in zip(members, contiguous(len(partitions), len(members)), strict=True):
        for _ in range(start, end):
            yield member


def average_by_circle(_topic: str, partitions: Sequence[int], members: Sequence[str]) -> Iterable[str]:
    """Deal the partitions in turn, one to each member (`AllocateMessageQueueAveragelyByCircle`)."""
    for place in range(len(partitions)):
        yield members[place % len(members)]


def consistent_hash(topic: str, partitions: Sequence[int], members: Sequence[str]) -> Iterable[str]:
    """Yield for each partition the next member on a ring of MD5 hashes (`AllocateMessageQueueConsistentHash`).

    If a member joins, partitions move only to this member. If a member leaves, only its partitions move. The hashed
    texts are RocketMQ's, with an empty broker name.
    """
    ring = {_hash(f"{member}-{i}"): member for member in members for i in range(VIRTUAL_NODES)}
    points = sorted(ring)
    for partition in partitions:
        place = bisect_left(points, _hash(f"MessageQueue [topic={topic}, brokerName=, queueId={partition}]"))
        yield ring[points[place % len(points)]]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4])


def _rooms(group: Group, topic: str) -> Mapping[str, list[int]]:
    racks = group.racks.get(topic, ())
    replicas = ((p, racks[p] if p < len(racks) else ()) for p in range(group.topics[topic]))
    return grouped((found[0] if found else "", partition) for partition, found in replicas)


def _add(answer: Assignment, topic: str, owners: Iterable[tuple[int, str]]) -> None:
    for partition, member in owners:
        answer[member].setdefault(topic, []).append(partition)
