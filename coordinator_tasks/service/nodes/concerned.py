"""Which consumers and topics a decision on some topics concerns.

Two topics are linked if a registered consumer wants both, or a consumer owns partitions of both. A plan takes the loads
of all linked topics into account. Topics without a link are planned apart, so their nodes and consumers are not read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.model import Member, TopicNode


@dataclass(frozen=True, slots=True)
class Concerned:
    """Linked topics, and all consumers that want or own partitions of these topics."""

    topics: frozenset[str]
    consumers: frozenset[str]


class Links:
    """The links of `managed` topics. `nodes`: the readable nodes of these topics."""

    def __init__(self, managed: Collection[str], nodes: Mapping[str, TopicNode], members: Mapping[str, Member]) -> None:
        by_wants: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for consumer, member in members.items():
            if not member.problem:  # if the registration is unreadable, its topics are unknown
                by_wants[member.topics].add(consumer)
        self._topics_of: dict[str, set[str]] = {}
        self._consumers_of: dict[str, set[str]] = {topic: set() for topic in managed}
        for topics, consumers in by_wants.items():
            wanted = {topic for topic in self._consumers_of if wants(topics, topic)}
            for topic in wanted:
                self._consumers_of[topic] |= consumers
            self._topics_of |= dict.fromkeys(consumers, wanted)
        for topic, node in nodes.items():
            self._consumers_of.setdefault(topic, set()).update(node.incarnations)
            for consumer in node.incarnations:
                if topic not in (others := self._topics_of.get(consumer, set())):
                    self._topics_of[consumer] = others | {topic}

    def of(self, topics: Collection[str]) -> Concerned:
        """Return all topics with a direct or indirect link to these topics, and the consumers of all of them."""
        found, consumers, todo = set[str](), set[str](), set(topics)
        while todo:
            found |= todo
            fresh = set().union(*(self._consumers_of.get(topic, ()) for topic in todo)) - consumers
            consumers |= fresh
            todo = set().union(*{id(one): one for c in fresh if (one := self._topics_of.get(c))}.values()) - found
        return Concerned(frozenset(found), frozenset(consumers))

    def consumers_of(self, topics: Collection[str]) -> frozenset[str]:
        """Return the consumers that want or own partitions of these topics."""
        return frozenset().union(*(self._consumers_of.get(topic, ()) for topic in topics))

    def groups(self, topics: Collection[str]) -> Iterator[Concerned]:
        """Yield these topics and all linked topics in groups. There is no link between two groups."""
        left = set(topics)
        while left:
            group = self.of([min(left)])
            left -= group.topics
            yield group
