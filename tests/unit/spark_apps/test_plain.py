"""The plain consumer's reading thread: its report when hanging at the end."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.library_log import LIBRARY_LOG
from spark_apps import plain
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from tests.fakes.kafka import FakeKafka

NODE = TopicNode("127.0.0.1:1", "g", 1, "g1", "id-1", initial_partitions=1)
GIVEN = replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})


@dataclass
class Clients:
    """The calls of all Kafka clients, which are stuck while they are not `free`."""

    refuses: bool = True
    entered: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)
    settings: list[dict[str, str]] = field(default_factory=list)
    warmed: list[tuple[object, float]] = field(default_factory=list)  # what the warm-up asks for, and its time limit
    polls: list[float] = field(default_factory=list)
    assigned: list[int] = field(default_factory=list)
    closed: list[tuple[int, str, bool]] = field(default_factory=list)  # with the thread that closes the client


class Client:
    def __init__(self, seen: Clients, settings: dict[str, str], logger: object) -> None:
        assert logger is LIBRARY_LOG
        self.seen = seen
        seen.settings.append(settings)

    def list_topics(self, topic: str, *, timeout: float) -> SimpleNamespace:
        self.seen.warmed.append((topic, timeout))
        partitions = {p: SimpleNamespace(leader=p % 2) for p in range(4)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def get_watermark_offsets(self, place: TopicPartition, *, timeout: float) -> None:
        self.seen.warmed.append(((place.topic, place.partition % 2), timeout))
        if self.seen.refuses:
            raise KafkaException

    def consume(self, _most: int, poll_s: float) -> list[object]:
        self.seen.polls.append(poll_s)
        self.seen.entered.set()
        self.seen.free.wait()
        time.sleep(0.001)
        return []

    def incremental_assign(self, _: object) -> None:
        self.seen.assigned.append(id(self))

    def close(self) -> None:
        one = threading.current_thread()
        self.seen.closed.append((id(self), one.name, one.daemon))


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    seen = Clients()
    seen.free.set()
    monkeypatch.setattr(plain, "Consumer", lambda settings, *, logger: Client(seen, settings, logger))
    return seen


@pytest.fixture
def kafka() -> FakeKafka:
    made = FakeKafka()
    made.create_topic("t", 1)
    return made


@pytest.fixture
def topic(clients: Clients, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[plain.PlainTopic]:
    monkeypatch.setattr(plain, "JOIN_TIMEOUT_S", 0.05)
    monkeypatch.setattr(plain, "STUCK_S", 0.1)
    clients.free.clear()
    runner = TopicRunner(
        "t", NODE, Identity("a", "c", 1), SystemClock(), lambda _: kafka.offsets("g"), bool, brokers="k:1"
    )
    node = replace(
        NODE, properties={"fetch.min.bytes": "9", "fetch.wait.max.ms": "40", "isolation.level": "read_committed"}
    )
    own = {"bootstrap.servers": "k:1", "fetch.min.bytes": "8", "group.id": "mine"}
    made = plain.PlainTopic(runner, node, own, plain.Output(lambda *_: None))
    assert clients.entered.wait(60)
    yield made
    clients.free.set()
    runner.close()


def wait_for(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_stuck_thread_counts_as_running(
    topic: plain.PlainTopic, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.halt()
    assert topic.runner.status().query_alive, "its batch may still be delivered"
    clients.free.set()
    monkeypatch.setattr(plain, "JOIN_TIMEOUT_S", 10.0)
    topic.halt()
    assert not topic.runner.status().query_alive


def test_the_client_asks_its_own_brokers_under_the_topics_group(topic: plain.PlainTopic, clients: Clients) -> None:
    (given,) = clients.settings
    assert (given["bootstrap.servers"], given["group.id"]) == ("k:1", NODE.group_id)
    assert (given["fetch.min.bytes"], given["fetch.wait.max.ms"]) == ("8", "40"), "our settings, then the topic's"
    assert given["isolation.level"] == "read_committed"
    assert not topic.problem


def test_polls_are_short_while_a_partition_starts(topic: plain.PlainTopic, clients: Clients, kafka: FakeKafka) -> None:
    clients.free.set()
    assert set(clients.polls) <= {plain.POLL_S}
    kafka.down = True
    topic.runner.edit(lambda ownership: ownership.grants.on_node(GIVEN))
    wait_for(lambda: plain.STARTING_POLL_S in clients.polls)
    kafka.down = False
    wait_for(lambda: clients.polls[-1] == plain.POLL_S)


@pytest.mark.parametrize("refuses", [True, False])
def test_the_client_is_warmed_up_at_every_leader_and_reads_even_if_one_does_not_answer(
    clients: Clients, request: pytest.FixtureRequest, refuses: bool
) -> None:
    clients.refuses = refuses
    request.getfixturevalue("topic")
    asked: list[Any] = ["t", ("t", 0), ("t", 1)]
    assert clients.warmed == [(one, plain.WARM_UP_TIMEOUT_S) for one in (asked[:2] if refuses else asked)]


def test_a_client_that_is_stuck_is_replaced(topic: plain.PlainTopic, clients: Clients, kafka: FakeKafka) -> None:
    kafka.append("t", 0, 5)
    clients.free.set()
    topic.runner.edit(lambda ownership: ownership.grants.on_node(GIVEN))
    wait_for(lambda: len(clients.assigned) > 1 and clients.closed)
    first, second = clients.assigned[:2]
    assert first != second
    assert clients.closed[0] == (first, "close-t", True)
    assert not topic.problem
