"""Processes that may run a partition beside the owner: taken for lost, or forgotten with ZooKeeper, and still alive.

Only the fence in Kafka stops these processes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.model import Ending, IdClaim, Token, TopicNode
from tests.simulation.consumer import Consumer
from tests.simulation.grants import Grants

LOOK_S = 10.0
"""Seconds within which a task writes its observations, almost always."""


class Excuse(StrEnum):
    """Reasons for running a partition beside the owner."""

    SET_ASIDE = "isolated by a person"
    ISOLATED = "isolated by the platform"
    ENDED = "its address has refused for long"
    ELDER = "not asked before a new generation"
    FORGOTTEN = "forgotten with ZooKeeper"


@dataclass
class Excuses:
    """Stored facts about the processes: registered, isolated, ended; and processes without any facts."""

    consumers: list[Consumer]
    grants: Grants
    _members: dict[str, str] = field(default_factory=dict)
    _claimed: dict[str, str] = field(default_factory=dict)
    _isolated: dict[str, int] = field(default_factory=dict)
    _ended: dict[str, Mapping[int, Ending]] = field(default_factory=dict)
    _forgotten: dict[tuple[str, str], int] = field(default_factory=dict)
    _named: set[tuple[str, int, int, str, int]] = field(default_factory=set)
    _answered: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)
    _elder: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    # Writes in ZooKeeper
    # -----------------------------------------------------------------------------------------------

    def on_member(self, consumer: str, address: str) -> None:
        """Note the present registration of this id; empty = unregistered."""
        self._members[consumer] = address

    def on_claim(self, claim: IdClaim, nodes: dict[str, TopicNode]) -> None:
        self._claimed[claim.consumer] = claim.address
        for incarnation in self._ended.get(claim.consumer, {}).keys() - claim.ended.keys():
            self._forget(claim.consumer, incarnation, nodes)
        self._ended[claim.consumer] = claim.ended

    def on_directive(self, consumer: str, isolated: int | None, nodes: dict[str, TopicNode]) -> None:
        """Note the isolation: `isolated` is an incarnation, 0 for all, or `None`."""
        if isolated is not None:
            self._isolated[consumer] = isolated
            return
        was = self._isolated.pop(consumer, None)
        asked = self._members.get(consumer) or self._claimed.get(consumer)
        for one in self.consumers if was is not None else ():
            # The consumer was not asked: it has no grants, and until the consumer has seen this, only the fence stops
            # it.
            if one.consumer == consumer and one.address != asked:
                self._forget(consumer, one.incarnation, nodes)

    def on_node(self, topic: str, node: TopicNode) -> None:
        """Judge the owners of this node again."""
        for p, owner in node.assignments.items():
            self._named.add((topic, p, node.since[p], owner, node.incarnations[owner]))

    def on_recovery(self, topic: str, node: TopicNode, heard: Collection[str]) -> None:
        """This node begins a generation, and the writer has heard the consumers at these addresses.

        Reported partitions of the topic are adopted or, if reported by several consumers, awaited until closed.
        Exception: a life beside another named life of the same id, which has committed since: such a life is forgotten,
        and stopped only by the fence.
        """
        for one in self.consumers:
            if node.incarnations.get(one.consumer, one.incarnation) != one.incarnation:
                self._forget(one.consumer, one.incarnation, {topic: node})
            elif one.address in heard:
                self._answered[one.name, topic] = self.grants.partitions(topic)

    def on_elder(self, one: Consumer, topic: str, generations: frozenset[str]) -> None:
        """A new generation has begun and this process was not asked: its holdings are of an earlier generation."""
        self._elder[one.name, topic] = generations
        self._answered.pop((one.name, topic), None)

    def on_restore(self, stood: Mapping[str, int]) -> None:
        """The tree was replaced: running and forgotten consumers are unknown until a node names them as owners.

        `stood`: the epochs of the nodes in the old tree. A reader of an old node may not have begun the grants yet.
        """
        self._named.clear()
        self._answered.clear()
        for one in self.consumers:
            if one.alive and one.topics is not None:
                queries = one.topics.queries
                for topic in stood.keys() | queries.keys():
                    epochs = [self._forgotten.get((one.name, topic), -1), stood.get(topic, -1)]
                    if topic in queries:
                        epochs += [held.token.epoch for held in queries[topic].ownership.holdings.held.values()]
                    self._forgotten[one.name, topic] = max(epochs)

    def _forget(self, consumer: str, incarnation: int, nodes: dict[str, TopicNode]) -> None:
        self._named = {one for one in self._named if one[0] not in nodes or one[3:] != (consumer, incarnation)}
        for one in self.consumers:
            if one.consumer == consumer and one.incarnation == incarnation:
                for topic, node in nodes.items():
                    self._answered.pop((one.name, topic), None)
                    self._forgotten[one.name, topic] = max(self._forgotten.get((one.name, topic), -1), node.epoch)

    # Conclusions
    # -------------------------------------------------------------------------------------------------------

    def lost(self, one: Consumer) -> bool:
        """Whether this process is taken for lost now."""
        isolated = self._isolated.get(one.consumer)
        return isolated in (0, one.incarnation) or one.incarnation in self._ended.get(one.consumer, {})

    def set_aside(self, one: Consumer) -> bool:
        """Return whether a person has isolated the process, even if alive and well: uncommitted records are read again."""
        return self._isolated.get(one.consumer) == 0

    def here(self, one: Consumer) -> bool:
        """Return whether this process is registered, known as such to all possible writers, and able to answer."""
        registered = one.alive and self._members.get(one.consumer) == one.address
        listed = one.kernel.now - one.listener.hidden_at > LOOK_S
        return registered and listed and one.running and not one.session.broken and not one.session.cut

    def of(self, one: Consumer, topic: str, partition: int, token: Token) -> Excuse | None:
        """Return why this process is excused for running under this token, if so.

        A forgotten process is excused, until a later node names the process as owner under this very epoch. A process
        that has answered a recovery since is excused only while the close is awaited. A process with a reported end, by
        itself or by the launcher, runs nothing.
        """
        key, isolated = (one.name, topic), self._isolated.get(one.consumer)
        ending = self._ended.get(one.consumer, {}).get(one.incarnation)
        if ending in (Ending.LEFT, Ending.REAPED):
            return None
        if isolated in (0, one.incarnation):
            return Excuse.ISOLATED if isolated else Excuse.SET_ASIDE
        if ending is Ending.REFUSED:
            return Excuse.ENDED
        if partition in self._answered.get(key, ()) and not self.grants.is_closed(one, topic, partition):
            return None
        if self._is_named(one, topic, partition, token):
            return None
        if token.generation in self._elder.get(key, ()):
            return Excuse.ELDER
        return Excuse.FORGOTTEN if token.epoch <= self._forgotten.get(key, -1) else None

    def is_given_out_again(self, one: Consumer, topic: str, partition: int, token: Token) -> bool:
        """Return whether this token's epoch was unknown to a new generation, and is not continued.

        Late commits under the token may meet another process's commits at the same epoch.
        """
        elder = token.generation in self._elder.get((one.name, topic), ())
        return elder and not self._is_named(one, topic, partition, token)

    def _is_named(self, one: Consumer, topic: str, partition: int, token: Token) -> bool:
        return (topic, partition, token.epoch, one.consumer, one.incarnation) in self._named
