"""ZooKeeper's data as shown to each process; the process must act on it before any further request.

Reads count once the process is registered in the reading session, and knows of the registration.
"""

from collections import Counter
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.codec import decode_node
from coordinator_tasks.core.codecs.member_codec import decode_directive
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.names import Paths
from tests.simulation.consumer import Consumer
from tests.simulation.zookeeper import UNREADABLE


@dataclass
class Shown:
    """By process: the last read of every topic's existing node, and whether the last read directive isolates it.

    `_due`: the topics with an acceptable node at the read. If only a later post makes a node acceptable, the next read
    counts.
    """

    paths: Paths
    _nodes: dict[str, dict[str, TopicNode]] = field(default_factory=dict)
    _due: dict[str, set[str]] = field(default_factory=dict)
    _isolated: dict[str, bool] = field(default_factory=dict)
    _news: Counter[str] = field(default_factory=Counter)

    def on_read(self, one: Consumer, path: str, data: bytes | None) -> None:
        folder, _, name = path.rpartition("/")
        if folder == self.paths.assignments and data and data != UNREADABLE:
            nodes, node = self._nodes.setdefault(one.name, {}), decode_node(path, data)
            self._news[one.name] += nodes.get(name) is not node
            nodes[name] = node
            due = self._due.setdefault(one.name, set())
            (due.add if _acceptable(one, name, node) else due.discard)(name)
        elif folder == self.paths.directives and name == one.consumer:
            isolation = decode_directive(path, data, name, 0).isolation if data else None
            isolated = isolation is not None and isolation.incarnation in (0, one.incarnation)
            self._news[one.name] += isolated != self.is_isolated(one)
            self._isolated[one.name] = isolated

    def news(self, one: Consumer) -> int:
        """Return the number of new reads of the process."""
        return self._news[one.name]

    def is_isolated(self, one: Consumer) -> bool:
        """Return whether the process knows of its isolation."""
        return self._isolated.get(one.name, False)

    def ignored(self, one: Consumer) -> str:
        """Return a sentence about a read node that should have been accepted; empty = no such node."""
        for topic in sorted(self._due.get(one.name, ())):
            ownership, node = one.ownership(topic), self._nodes[one.name][topic]
            if ownership is not None and _acceptable(one, topic, node):
                picture = ownership.holdings.accepted
                known = f"epoch {picture.epoch} of {picture.generation}" if picture is not None else "nothing"
                return f"{one.name} has read epoch {node.epoch} of {node.generation} of {topic} and acts on {known}"
        return ""


def _acceptable(one: Consumer, topic: str, node: TopicNode) -> bool:
    ownership = one.ownership(topic)
    picture = ownership.holdings.accepted if ownership is not None else None
    return picture is None or _replaces(picture, node)


def _replaces(picture: TopicNode, node: TopicNode) -> bool:
    covered = picture.generation == node.generation or node.supersedes.get(picture.generation, -1) >= picture.epoch
    return covered and node.epoch > picture.epoch
