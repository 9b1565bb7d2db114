"""Three ZooKeeper servers and three brokers: a hand-off goes through while leaders die in the middle of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.model import MoveKind, State, TopicNode
from coordinator_tasks.core.ports import Create, SetData, ZooKeeper
from coordinator_tasks.devstack.embedded.kafka import EmbeddedBrokers, EmbeddedKafka
from coordinator_tasks.devstack.embedded.processes import ManagedProcess
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble
from coordinator_tasks.service.coordinator import Coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(300)]
ALL = range(6)
Figure = Callable[[str, object], None]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(tmp_path / "zookeeper") as three:
        yield three


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[EmbeddedBrokers]:
    with EmbeddedBrokers(tmp_path / "kafka") as three:
        yield three


@pytest.fixture
def managed(ensemble: EmbeddedEnsemble, brokers: EmbeddedBrokers) -> Iterator[Managed]:
    site = Site(ensemble.connect_string, brokers.bootstrap_servers, len(ALL))
    # A producer that sends again after its broker's death must not store a record twice: offsets are numbers here.
    site.producer = Producer({**site.settings.kafka, "linger.ms": 2, "enable.idempotence": True})
    made = Managed(site)
    yield made
    made.close()


def leading(brokers: EmbeddedBrokers, site: Site, partition: int) -> EmbeddedKafka:
    """The broker that leads the partition."""
    topic = AdminClient(dict(site.settings.kafka)).list_topics(site.topic, 10).topics[site.topic]
    return next(one for one in brokers.servers if one.node == topic.partitions[partition].leader)


@dataclass
class Writes:
    """A ZooKeeper session; `after` gets the operations of each transaction that was done."""

    zk: ZooKeeper
    after: Callable[[Sequence[object]], None]

    def transact(self, operations: Sequence[object]) -> object:
        done = self.zk.transact(operations)  # type: ignore[arg-type]
        self.after(operations)
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self.zk, name)


def at_closing(managed: Managed, act: Callable[[TopicNode], None]) -> Callable[[Coordinator], Coordinator]:
    """Wraps the coordinator: `act` comes right after the write that begins a hand-off, with the node that was written.

    A read in another session may still see the node of before: its server may be behind.
    """
    state, node = managed.site.paths.state(managed.site.topic), managed.site.paths.topic(managed.site.topic)

    def look(operations: Sequence[object]) -> None:
        written = {one.path: one.data for one in operations if isinstance(one, Create | SetData)}
        if state in written and decode_state(state, written[state]).state is State.CLOSING:
            act(decode_node(node, written[node]))

    return lambda c: replace(c, zk=cast("ZooKeeper", Writes(c.zk, look)))


def test_a_hand_off_while_leaders_die_loses_nothing_and_has_one_owner(
    ensemble: EmbeddedEnsemble, brokers: EmbeddedBrokers, managed: Managed, record_property: Figure
) -> None:
    killed: list[ManagedProcess] = []

    def kill(node: TopicNode) -> None:
        killed.extend((ensemble.leader(), leading(brokers, managed.site, min(node.handoff))))
        for server in killed:
            server.kill()

    managed.join("a")
    with managed.looping(at_closing(managed, kill)):
        managed.stable("a")
        traffic = Traffic(managed.site)
        managed.ledger.grown(ALL, "records flow")
        managed.join("b")
        wait_for(lambda: len(killed) == 2, "the leaders are killed", LIMIT_S)
        record_property("stable_s", round(wait_for(lambda: managed.stable("ab"), "Stable"), 1))
        managed.ledger.grown(ALL, "records flow again")
        sent = traffic.close()
        managed.consumed(sent)
    managed.judge(sent)
    moves = [move for record in managed.history()[2:] for move in record.moves]
    assert {(move.giver, move.taker, move.kind) for move in moves} == {("a", "b", MoveKind.HANDOFF)}
    assert len({move.partition for move in moves}) == len(ALL) // 2, "nothing moved but the joiner's share"
