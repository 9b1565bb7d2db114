"""Kafka's `range`, as on the client (rack-aware, KIP-881) and as on the broker (KIP-848).

For each topic, the members in Kafka's order get contiguous ranges, and the first ranges are longer by one partition. So
topics with equal numbers of partitions and equal subscribers are co-partitioned, which joins between topics require.
The client's `range` considers racks if some partitions lack a replica on some racks. Partitions then go first to
members on a rack of their replicas, as far as the sizes of the ranges and co-partitioning allow.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from coordinator_tasks.core.assignors.group import Assignment, Group, contiguous
from coordinator_tasks.core.grouped import grouped


def server_range(group: Group) -> Assignment:
    """Answer like the broker's `range`, without racks. Takes O(members · topics) plus the size of the answer."""
    answer: Assignment = {member: {} for member in group.members}
    for topic, members in group.subscribers().items():
        for member, (start, end) in zip(members, contiguous(group.topics[topic], len(members)), strict=True):
            if start < end:
                answer[member][topic] = list(range(start, end))
    return answer


def client_range(group: Group) -> Assignment:
    """Answer like the client's `range`: like the broker's, or, if racks matter, in O(members · partitions) per topic."""
    states = [_TopicState(group, topic, members) for topic, members in group.subscribers().items()]
    if not any(state.racks_matter for state in states):
        return server_range(group)
    _match_racks(states)
    answer: Assignment = {member: {} for member in group.members}
    for state in states:
        state.fill(lambda _member, _partition: True)
        for member, partitions in state.given.items():
            if partitions:
                answer[member][state.topic] = sorted(partitions)
    return answer


class _TopicState:
    """One topic while its ranges are being filled."""

    def __init__(self, group: Group, topic: str, members: list[str]) -> None:
        self.topic = topic
        self.count = group.topics[topic]
        self.member_racks = {m: group.members[m].rack or None for m in members}
        self._unassigned = dict.fromkeys(range(self.count))
        self.given: dict[str, list[int]] = {m: [] for m in members}
        self._size, self._longer = divmod(self.count, len(members))
        self._replicas = [frozenset(racks) for racks in group.racks.get(topic, ())]
        consumer_racks = {rack for rack in self.member_racks.values() if rack}
        every_rack = frozenset().union(*self._replicas)
        self.has_racks = bool(consumer_racks)
        # Racks do not matter if no member is on a rack of any replica, or if every partition has replicas on every
        # rack.
        self.racks_matter = bool(consumer_racks & every_rack) and any(r != every_rack for r in self._replicas)

    def near(self, member: str, partition: int) -> bool:
        rack = self.member_racks[member]
        return rack is None or (partition < len(self._replicas) and rack in self._replicas[partition])

    def room(self, member: str) -> int:
        """Return how many partitions the member may still take, with one more while longer ranges are left."""
        return max(0, self._size + (self._longer > 0) - len(self.given[member]))

    def fill(self, may: Callable[[str, int], bool]) -> None:
        for member in self.given:
            chosen = list(islice((p for p in self._unassigned if may(member, p)), self.room(member)))
            if chosen:
                self.give(member, chosen)

    def give(self, member: str, partitions: list[int]) -> None:
        self.given[member] += partitions
        if len(self.given[member]) > self._size:
            self._longer -= 1
        for partition in partitions:
            del self._unassigned[partition]


def _match_racks(states: list[_TopicState]) -> None:
    keys = ((frozenset(one.member_racks.items()), one.count) for one in states if one.has_racks)
    for alike in grouped(zip(keys, (one for one in states if one.has_racks), strict=True)).values():
        if len(alike) > 1:
            _match_co_partitioned(alike)
        elif alike[0].racks_matter:
            alike[0].fill(alike[0].near)


def _match_co_partitioned(states: list[_TopicState]) -> None:
    """Give partition p of all topics to the first member that is near it and has room in each of the topics."""
    remaining = list(states[0].member_racks)
    for partition in range(states[0].count):
        found = next((m for m in remaining if _fits(states, m, partition)), None)
        if found is None:
            continue
        for state in states:
            state.give(found, [partition])
        if not any(state.room(found) for state in states):
            remaining.remove(found)


def _fits(states: Iterable[_TopicState], member: str, partition: int) -> bool:
    return all(state.near(member, partition) and state.room(member) for state in states)
