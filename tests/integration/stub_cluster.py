"""A cluster of stub consumers with one topic, and the coordinator that a test steps."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.codecs.member_codec import decode_directive
from coordinator_tasks.core.machine.invariants import of_topic
from coordinator_tasks.core.model import Actor, Record, State, TopicNode, TopicState
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S, QUICK
from tests.integration.stub_consumer import StubConsumer

PARTITIONS = 6
LOOP = Actor("loop", "test")


class StubCluster:
    """`topic` has the name of the cluster."""

    def __init__(self, c: Coordinator, settings: Settings) -> None:
        self.c, self.settings, self.topic = c, settings, settings.cluster
        self.stubs: list[StubConsumer] = []

    def join(self, name: str, kind: type[StubConsumer] = StubConsumer) -> StubConsumer:
        self.stubs.append(kind(self.settings, name).start())
        return self.stubs[-1]

    def step(self) -> TopicReport:
        (report,) = transitions.step(self.c, [self.topic], LOOP)
        return report

    def stored(self) -> tuple[TopicNode, TopicState]:
        node, state = self.c.paths.topic(self.topic), self.c.paths.state(self.topic)
        return decode_node(node, self.c.zk.get(node).data), decode_state(state, self.c.zk.get(state).data)

    def records(self) -> list[Record]:
        """Oldest first."""
        return list(history.records(self.c, self.topic, 1000))[::-1]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.step()
            return holds()

        wait_for(stepped, what, LIMIT_S)

    def is_stable(self, owners: Sequence[str]) -> bool:
        if self.c.zk.find(self.c.paths.state(self.topic)) is None:
            return False
        node, state = self.stored()
        assert of_topic(node, state) == []
        return state.state is State.STABLE and set(node.assignments.values()) == set(owners)

    def stable(self, owners: Sequence[str]) -> None:
        """Step until these consumers own everything."""
        self.until(lambda: self.is_stable(owners), f"Stable with {list(owners)}")

    def isolated_by(self, consumer: str) -> str:
        path = self.c.paths.directive(consumer)
        found = self.c.zk.find(path)
        directive = decode_directive(path, found.data, consumer, 0) if found is not None else None
        return directive.isolation.by if directive is not None and directive.isolation is not None else ""


@contextmanager
def stub_cluster(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, policy: dict[str, Any], **more: Any
) -> Iterator[StubCluster]:
    """A new cluster until the end of the block. `policy`: fields of the policy; `more`: further settings."""
    name, servers = f"s{uuid.uuid4().hex[:8]}", {"bootstrap.servers": kafka.bootstrap_servers, "log_level": "1"}
    quick = replace(QUICK, settle_s=0.0, **policy)
    settings = Settings(name, zookeeper.connect_string, servers, policy=quick, **more)
    ConfluentKafkaAdmin(servers).create_topic(name, PARTITIONS)
    with open_coordinator(settings) as c:
        topics.add_topic(c, name, f"g-{name}", actor=PERSON)
        made = StubCluster(c, settings)
        yield made
        for stub in made.stubs:
            stub.stop()
