"""Topic `orders` with committed offsets, and a consumer that obeys at once: for tests of offset resets."""

from collections.abc import Mapping
from types import MappingProxyType

from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.model import (
    Committed,
    ConsumerStatus,
    Member,
    RunningPartition,
    State,
    StateSize,
    Token,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.protocol.holding import may_hold
from coordinator_tasks.service.nodes.topics import add_topic
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster


class Shop(Cluster):
    """Topic `orders` with three partitions of 100 records, the first 10 expired; consumers obey at once."""

    states: Mapping[int, StateSize] = MappingProxyType({})

    def answer(self, member: Member) -> ConsumerStatus:
        if not self.zk.get(self.paths.topic("orders")).data:
            return ConsumerStatus(member.consumer, self.name, member.incarnation, "boot", "ok")
        node = self.node
        running = {
            p: RunningPartition(
                0, Token(node.since[p], member.incarnation, node.generation), True, state=self.states.get(p)
            )
            for p, owner in node.assignments.items()
            if owner == member.consumer
        }
        held = may_hold(node, member.consumer, member.incarnation, isolated=False)
        status = TopicStatus(node.generation, node.epoch, held, running, True)
        return ConsumerStatus(member.consumer, self.name, member.incarnation, "boot", "ok", {"orders": status})

    @property
    def node(self) -> TopicNode:
        path = self.paths.topic("orders")
        return decode_node(path, self.zk.get(path).data)

    @property
    def state(self) -> State:
        path = self.paths.state("orders")
        return decode_state(path, self.zk.get(path).data).state

    def starts(self, consumer: str) -> None:
        self.join(consumer)
        self.statuses.answers[consumer] = self.answer

    def settle(self) -> None:
        for _ in range(6):
            self.clock.advance(10.0)
            transitions.step(self.coordinator, ["orders"], PERSON)

    def commit(self, partition: int, offset: int) -> None:
        token = Token(self.node.since[partition], 1, self.node.generation)
        entry = Committed(offset, token, "a", self.name, self.node.topic_id)
        self.kafka.offsets("g").commit("orders", {partition: entry})


def open_shop() -> Shop:
    """Partitions 0 and 1 are committed at 80 and 90, partition 2 nowhere; records come at 1 s and, from offset 60, at 5 s."""
    shop = Shop()
    shop.kafka.create_topic("orders", 3)
    for partition in range(3):
        shop.kafka.append("orders", partition, 60, at_ms=1_000)
        shop.kafka.append("orders", partition, 40, at_ms=5_000)
        shop.kafka.expire("orders", partition, 10)
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    shop.starts("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    shop.settle()
    assert shop.state is State.STABLE
    shop.commit(0, 80)
    shop.commit(1, 90)
    return shop
