"""Problem and answer of a whole group: several topics, mixed subscriptions and racks, as in Kafka's assignors.

The form follows Kafka's `ConsumerPartitionAssignor` (client side) and KIP-848's `PartitionAssignor` (broker side). The
coordinator plans one topic at a time (`problem.Problem`). `one_topic.OneTopic` adapts a group strategy to this.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from coordinator_tasks.core.grouped import grouped

Assignment = dict[str, dict[str, list[int]]]
"""Member → topic → ascending partitions. Every member has an entry, which lists only topics with partitions."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    - `topics`: the member's subscriptions; unknown topics are ignored.
    - `rack`: the member's rack; `None` if unknown.
    - `instance`: Kafka's `group.instance.id` of a static member. It replaces the id when members are ordered.
    """

    topics: frozenset[str]
    rack: str | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The problem of a group strategy.

    - `topics`: topic → number of partitions, which are numbered from 0.
    - `members`: by id.
    - `racks`: topic → for each partition the racks of its replicas, the preferred leader's first; may lack a topic.
    """

    topics: Mapping[str, int]
    members: Mapping[str, GroupMember]
    racks: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def subscribers(self) -> dict[str, list[str]]:
        """Return topic → subscribed members in Kafka's order. Topics without partitions or subscribers are left out."""
        members = kafka_order(self.members)
        return grouped((t, m) for m in members for t in self.members[m].topics if self.topics.get(t, 0) > 0)


GroupAssignor: TypeAlias = Callable[[Group], Assignment]
"""A strategy for a whole group. It assigns every partition of a topic with subscribers to exactly one subscriber. It is
pure, and ignores the order in which members and topics are listed.
"""


def kafka_order(members: Mapping[str, GroupMember]) -> list[str]:
    """Return the members in Kafka's order: static members by instance id, others by id (`MemberInfo.compareTo`)."""
    return sorted(members, key=lambda m: (members[m].instance is None, java_order(members[m].instance or m)))


def java_order(text: str) -> bytes:
    """Return a sort key for Java's order of strings (UTF-16 code units), which differs from Python's beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def contiguous(total: int, shares: int) -> list[tuple[int, int]]:
    """Split `total` items into `shares` ranges (start, end). The first `total % shares` ranges are longer by one."""
    size, longer = divmod(total, shares)
    starts = [size * i + min(i, longer) for i in range(shares + 1)]
    return list(pairwise(starts))
