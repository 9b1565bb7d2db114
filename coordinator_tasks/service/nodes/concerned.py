"""Which consumers and topics a decision on some topics concerns.

Topics are linked if a registered consumer wants both, or a consumer owns partitions of both: then they share the loads of
a plan. Topics without a link are planned apart, so no other consumer is asked, and no other topic is read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.model import Member, TopicNode


@dataclass(frozen=True, slots=True)
class Concerned:
    """Linked topics, and all consumers that want or own partitions of a topic among them."""

    topics: frozenset[str]
    consumers: frozenset[str]


class Links:
    """The links of `managed` topics. `nodes`: of these topics, as far as they can be read."""

    def __init__(self, managed: Collection[str], nodes: Mapping[str, TopicNode], members: Mapping[str, Member]) -> None:
        by_wants: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for consumer, member in members.items():
            if not member.problem:  # an unreadable registration wants nothing
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
        """Return all topics linked to these, directly or not."""
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
        """Yield these topics and all linked topics in groups without links between them."""
        left = set(topics)
        while left:
            group = self.of([min(left)])
            left -= group.topics
            yield group
