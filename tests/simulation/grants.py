"""Permission to run a partition, by stored nodes, and by a process's accepted node.

Written independently of `core.holding`, whose rules are judged here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model import TopicNode, TopicState
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from tests.simulation.consumer import Consumer

Owner = tuple[str, int]  # consumer and incarnation; 0 = any


@dataclass
class Grants:
    """`granted`: every grant of any written node. The other fields are about present nodes."""

    granted: set[tuple[str, str, int, int, str, int]] = field(default_factory=set)
    _nodes: dict[str, TopicNode] = field(default_factory=dict)
    _states: dict[str, TopicState] = field(default_factory=dict)
    _possible: dict[str, dict[int, frozenset[Owner]]] = field(default_factory=dict)

    def on_node(self, topic: str, node: TopicNode | None) -> None:
        """The topic's node has changed; `None` = gone, with nothing known."""
        self._possible.pop(topic, None)
        if node is None:
            self._nodes.pop(topic, None)
            return
        self._nodes[topic] = node
        for p, consumer in node.assignments.items():
            self.granted.add((topic, node.generation, p, node.since[p], consumer, node.incarnations[consumer]))
        for p, entry in node.handoff.items():
            self.granted.add((topic, node.generation, p, entry.epoch, entry.taker, node.incarnations[entry.taker]))

    def on_state(self, topic: str, state: TopicState | None) -> None:
        """The topic's state has changed; `None` = gone."""
        self._possible.pop(topic, None)
        if state is None:
            self._states.pop(topic, None)
        else:
            self._states[topic] = state

    def is_known(self, topic: str) -> bool:
        """Whether anything is stored of the topic."""
        return topic in self._nodes

    def may_run(self, one: Consumer, topic: str, partition: int) -> bool:
        """Return whether this process may still run the partition, as owner or until its end is confirmed, by stored data."""
        if topic not in self._possible:
            self._possible[topic] = self._owners(topic)
        return (one.consumer, one.incarnation) in self._possible[topic].get(partition, frozenset())

    def partitions(self, topic: str) -> frozenset[int]:
        """Return the partitions with any stored data."""
        return frozenset(self._owners(topic))

    def is_closed(self, one: Consumer, topic: str, partition: int) -> bool:
        """Return whether the partition's close by this consumer is awaited."""
        state = self._states.get(topic)
        return state is not None and partition in state.to_close.get(one.consumer, ())

    def _owners(self, topic: str) -> dict[int, frozenset[Owner]]:
        node, state = self._nodes[topic], self._states.get(topic)
        found: dict[int, set[str]] = {p: {owner} for p, owner in node.assignments.items()}
        for p, entry in node.handoff.items():
            found.setdefault(p, set()).update((entry.giver, entry.taker))
        for consumer, partitions in (state.to_close if state is not None else {}).items():
            for p in partitions:
                found.setdefault(p, set()).add(consumer)
        known: Mapping[str, int] = node.incarnations
        return {p: frozenset((c, known.get(c, 0)) for c in owners) for p, owners in found.items()}


def by_picture(one: Consumer, topic: str, partition: int, held: OwnedPartition) -> bool:
    """Return whether this process's accepted node grants the partition under the held token."""
    ownership = one.ownership(topic)
    picture = ownership.holdings.accepted if ownership is not None else None
    if picture is None or picture.removed or picture.incarnations.get(one.consumer) != one.incarnation:
        return False
    entry = picture.handoff.get(partition)
    if entry is not None and entry.taker == one.consumer:
        return entry.epoch == held.token.epoch
    return picture.assignments.get(partition) == one.consumer and picture.since[partition] == held.token.epoch
