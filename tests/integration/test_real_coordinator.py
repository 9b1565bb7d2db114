"""The coordinator itself on a real ZooKeeper: run twice at once, lied to."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from benchmarks.plain_loop import looping
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.codecs.status_codec import decode_status, encode_status
from coordinator_tasks.core.machine.invariants import of_topic
from coordinator_tasks.core.model import Actor, Record, RunningPartition, State, Token, TopicNode, TopicState
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history, topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S, QUICK
from tests.integration.stub_consumer import StubConsumer

pytestmark = pytest.mark.integration
PARTITIONS = 6
LOOP = Actor("loop", "test")
JOIN = [(State.STABLE, State.CLOSING), (State.CLOSING, State.STARTING), (State.STARTING, State.STABLE)]


@dataclass
class Cluster:
    """A cluster of stub consumers with one topic."""

    settings: Settings
    topic: str
    stubs: dict[str, StubConsumer] = field(default_factory=dict)

    def join(self, name: str, kind: type[StubConsumer] = StubConsumer) -> StubConsumer:
        self.stubs[name] = kind(self.settings, name).start()
        return self.stubs[name]

    def stored(self, c: Coordinator) -> tuple[TopicNode, TopicState]:
        """Node and state of one moment: the node is the same before and after the state was read."""
        path, state_path = c.paths.topic(self.topic), c.paths.state(self.topic)
        while True:
            node, state = c.zk.get(path), c.zk.get(state_path)
            if c.zk.get(path).stat.version == node.stat.version:
                return decode_node(path, node.data), decode_state(state_path, state.data)

    def records(self, c: Coordinator) -> list[Record]:
        """Oldest first."""
        return list(history.records(c, self.topic, 1000))[::-1]

    def is_stable(self, c: Coordinator, owners: Sequence[str]) -> bool:
        if c.zk.find(c.paths.state(self.topic)) is None:
            return False
        node, state = self.stored(c)
        assert of_topic(node, state) == []
        return state.state is State.STABLE and set(node.assignments.values()) == set(owners)

    def settle(self, c: Coordinator, owners: Sequence[str]) -> None:
        """Step until these consumers own everything."""

        def step() -> bool:
            transitions.step(c, [self.topic], LOOP)
            return self.is_stable(c, owners)

        wait_for(step, f"Stable with {list(owners)}", LIMIT_S)

    def close(self) -> None:
        for stub in self.stubs.values():
            stub.stop()


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Cluster]:
    name = f"k{uuid.uuid4().hex[:8]}"
    kafka_settings = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": "1"}
    policy = replace(QUICK, settle_s=0.0, flap_registrations=1000)
    settings = Settings(name, zookeeper.connect_string, kafka_settings, session_timeout_s=2.0, policy=policy)
    ConfluentKafkaAdmin(kafka_settings).create_topic(name, PARTITIONS)
    with open_coordinator(settings) as c:
        topics.add_topic(c, name, f"g-{name}", actor=PERSON)
    made = Cluster(settings, name)
    yield made
    made.close()


def test_two_loops_at_once_have_one_effect_and_one_record_for_each_transition(cluster: Cluster) -> None:
    with ExitStack() as ending:
        c = ending.enter_context(open_coordinator(cluster.settings))
        for who in ("first", "second"):
            ending.enter_context(looping(ending.enter_context(open_coordinator(cluster.settings)), who))
        cluster.join("a")
        wait_for(lambda: cluster.is_stable(c, "a"), "Stable with a", LIMIT_S)
        for name in ("b", "d"):
            cluster.join(name)
            wait_for(lambda name=name: cluster.is_stable(c, ["a", name]), f"Stable with {name}", LIMIT_S)
            directives.drain(c, name, "test", "the round is over")
            wait_for(lambda: cluster.is_stable(c, "a"), "Stable without it", LIMIT_S)
        records = cluster.records(c)
    assert [(one.source, one.target) for one in records] == [
        (State.INITIAL, State.STARTING),
        (State.STARTING, State.STABLE),
        *JOIN * 4,
    ]
    epochs = [one.epoch for one in records if one.moves]
    assert epochs == sorted(set(epochs)), "every plan has an epoch of its own"
    assert [len(one.moves) for one in records if one.moves] == [PARTITIONS] + [PARTITIONS // 2] * 4


class Liar(StubConsumer):
    """A consumer that stops and releases as asked, and goes on reporting its former partitions as running."""

    honest = False

    def status(self) -> bytes:
        true = decode_status("", super().status())
        if self.honest:
            return encode_status(true)
        claimed = {
            topic: replace(
                one,
                running={p: RunningPartition(0, Token(1, self.incarnation), started=True) for p in range(PARTITIONS)}
                | dict(one.running),
            )
            for topic, one in true.topics.items()
        }
        return encode_status(replace(true, topics=claimed))


def test_who_releases_but_goes_on_saying_that_it_runs_blocks_the_start_and_is_named(cluster: Cluster) -> None:
    liar = cast("Liar", cluster.join("a", Liar))
    with open_coordinator(cluster.settings) as c:
        cluster.settle(c, "a")
        taker = cluster.join("b")

        def released() -> bool:
            transitions.step(c, [cluster.topic], LOOP)
            return len(taker.running(cluster.topic)) == PARTITIONS // 2

        wait_for(released, "the releases are there and taken up", LIMIT_S)
        assert len(liar.running(cluster.topic)) == PARTITIONS // 2
        for _ in range(5):
            (report,) = transitions.step(c, [cluster.topic], LOOP)
            assert (report.after, report.blockers) == (State.CLOSING, ("a",))
            assert "a still runs partition" in report.reason
        waiting = transitions.await_closed(c, [cluster.topic])
        assert waiting.blockers == {cluster.topic: ("a",)}
        assert c.zk.find(c.paths.directive("a")) is None, "nobody isolates it"
        liar.honest = True
        cluster.settle(c, "ab")
        assert [(one.source, one.target) for one in cluster.records(c)][-3:] == JOIN
