"""A whole group's question and answer: several topics, mixed subscriptions, racks and claims, as Kafka's assignors see it.

The shape follows Kafka's `ConsumerPartitionAssignor` (client side) and KIP-848's `PartitionAssignor` (broker side). The
coordinator asks for one topic at a time (`problem.Problem`); `one_topic.OneTopic` lets a group strategy answer that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

Assignment = dict[str, dict[str, list[int]]]
"""Member → topic → ascending partitions. Every member is listed, topics without partitions are not."""

NO_GENERATION = -1
"""Kafka's generation of a member that does not know one."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member.

    - `topics`: what it subscribes to; topics that do not exist are ignored.
    - `owned`: topic → partitions that it claims to have, in any order.
    - `generation`: of that claim; of two claims the newer one is believed.
    - `rack`: where it runs; None = unknown.
    - `instance`: Kafka's `group.instance.id` of a static member; orders members in place of their ids.
    """

    topics: frozenset[str]
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = NO_GENERATION
    rack: str | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What a group strategy is asked.

    - `topics`: topic → number of partitions; they are numbered from 0.
    - `members`: by id.
    - `racks`: topic → per partition the racks of its replicas, the preferred leader's first; topics may be missing.
    """

    topics: Mapping[str, int]
    members: Mapping[str, GroupMember]
    racks: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def subscribers(self) -> dict[str, list[str]]:
        """Topic → members subscribed to it, in Kafka's order; only topics that have partitions and subscribers."""
        order = kafka_order(self.members)
        chosen: dict[str, list[str]] = {}
        for member in order:
            for topic in self.members[member].topics:
                if self.topics.get(topic, 0) > 0:
                    chosen.setdefault(topic, []).append(member)
        return chosen


class GroupAssignor(Protocol):
    """A strategy for a whole group: pure, and independent of the order in which members and topics are listed."""

    def assign(self, group: Group) -> Assignment:
        """Every partition of a topic with a subscriber goes to exactly one of its subscribers."""


def kafka_order(members: Mapping[str, GroupMember]) -> list[str]:
    """Static members by instance id, then the others by member id (Kafka's `MemberInfo.compareTo`)."""
    return sorted(members, key=lambda m: (members[m].instance is None, java_order(members[m].instance or m)))


def java_order(text: str) -> bytes:
    """Sort key that orders strings as Java does: by UTF-16 code units, which differs from Python's beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def contiguous(total: int, shares: int) -> list[tuple[int, int]]:
    """`total` things in ranges (start, end), one per share; the first `total % shares` ranges are one longer."""
    size, longer = divmod(total, shares)
    starts = [size * i + min(i, longer) for i in range(shares + 1)]
    return list(pairwise(starts))
