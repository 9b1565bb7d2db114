"""The plain consumer's reading thread: its report when hanging at the end."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from confluent_kafka import KafkaException, TopicPartition
from structlog.contextvars import get_contextvars

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.library_log import LIBRARY_LOG
from spark_apps import plain
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from tests.fakes.kafka import FakeKafka

NODE = TopicNode("127.0.0.1:1", "g", 1, "g1", "id-1", initial_partitions=1)


class Client:
    """A Kafka client, stuck until released."""

    def __init__(self, settings: dict[str, str], *, logger: object) -> None:
        assert logger is LIBRARY_LOG
        self.settings.append(settings)

    settings: ClassVar[list[dict[str, str]]] = []

    entered, free = threading.Event(), threading.Event()

    refuses: ClassVar[bool] = True
    warmed: ClassVar[list[tuple[object, float]]] = []  # brokers of the warm-up, and its time limit

    def list_topics(self, topic: str, *, timeout: float) -> SimpleNamespace:
        self.warmed.append((topic, timeout))
        partitions = {p: SimpleNamespace(leader=p % 2) for p in range(4)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def get_watermark_offsets(self, place: TopicPartition, *, timeout: float) -> None:
        self.warmed.append(((place.topic, place.partition % 2), timeout))
        if self.refuses:
            raise KafkaException

    polls: ClassVar[list[float]] = []
    assigned: ClassVar[list[int]] = []
    closed: ClassVar[list[int]] = []
    closers: ClassVar[list[tuple[str, bool]]] = []  # threads for closing clients
    about: ClassVar[list[dict[str, object]]] = []  # the fields of log lines
    kafka: ClassVar[FakeKafka]

    def consume(self, _most: int, poll_s: float) -> list[object]:
        self.polls.append(poll_s)
        self.about.append(dict(get_contextvars()))
        self.entered.set()
        self.free.wait()
        time.sleep(0.001)
        return []

    def incremental_assign(self, _: object) -> None:
        self.assigned.append(id(self))

    def close(self) -> None:
        self.closed.append(id(self))
        one = threading.current_thread()
        self.closers.append((one.name, one.daemon))


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[plain.PlainTopic]:
    monkeypatch.setattr(plain, "Consumer", Client)
    monkeypatch.setattr(plain, "JOIN_TIMEOUT_S", 0.05)
    monkeypatch.setattr(plain, "STUCK_S", 0.1)
    monkeypatch.setattr(Client, "entered", threading.Event())
    monkeypatch.setattr(Client, "free", threading.Event())
    monkeypatch.setattr(Client, "polls", [])
    monkeypatch.setattr(Client, "assigned", [])
    monkeypatch.setattr(Client, "closed", [])
    monkeypatch.setattr(Client, "closers", [])
    monkeypatch.setattr(Client, "about", [])
    monkeypatch.setattr(Client, "settings", [])
    monkeypatch.setattr(Client, "warmed", [])
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    monkeypatch.setattr(Client, "kafka", kafka, raising=False)
    runner = TopicRunner(
        "t", NODE, Identity("a", "c", 1), SystemClock(), lambda _: kafka.offsets("g"), bool, brokers="k:1"
    )
    node = replace(
        NODE, properties={"fetch.min.bytes": "9", "fetch.wait.max.ms": "40", "isolation.level": "read_committed"}
    )
    own = {"bootstrap.servers": "k:1", "fetch.min.bytes": "8", "group.id": "mine"}
    yield plain.PlainTopic(runner, node, own, plain.Output(lambda *_: None))
    Client.free.set()
    runner.close()


def test_a_thread_that_does_not_end_goes_on_counting_as_running(
    topic: plain.PlainTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Client.entered.wait(60)
    topic.halt()
    assert topic.runner.status().query_alive, "its batch may still be delivered"
    Client.free.set()
    monkeypatch.setattr(plain, "JOIN_TIMEOUT_S", 10.0)
    topic.halt()
    assert not topic.runner.status().query_alive


def test_the_client_asks_its_own_brokers_under_the_topics_group(topic: plain.PlainTopic) -> None:
    assert Client.entered.wait(60)
    given = Client.settings[0]
    assert (given["bootstrap.servers"], given["group.id"]) == ("k:1", NODE.group_id)
    assert (given["fetch.min.bytes"], given["fetch.wait.max.ms"]) == ("8", "40"), "our settings, then the topic's"
    assert given["isolation.level"] == "read_committed"
    assert not topic.problem


def test_polls_are_short_while_a_partition_is_taken_up(topic: plain.PlainTopic) -> None:
    Client.free.set()
    given = replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})
    assert set(Client.polls) <= {plain.POLL_S}
    Client.kafka.down = True
    topic.runner.edit(lambda ownership: ownership.grants.on_node(given))
    wait_for(lambda: plain.STARTING_POLL_S in Client.polls)
    Client.kafka.down = False
    wait_for(lambda: Client.polls[-1] == plain.POLL_S)


@pytest.mark.parametrize("refuses", [True, False])
def test_the_client_is_warmed_up_at_every_leader_and_reads_even_if_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, refuses: bool
) -> None:
    monkeypatch.setattr(Client, "refuses", refuses)
    request.getfixturevalue("topic")
    assert Client.entered.wait(60)
    asked = ["t", ("t", 0), ("t", 1)]
    assert Client.warmed == [(one, plain.WARM_UP_TIMEOUT_S) for one in (asked[:2] if refuses else asked)]


def wait_for(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_another_client_is_asked_for_records_that_do_not_come(topic: plain.PlainTopic) -> None:
    Client.kafka.append("t", 0, 5)
    Client.free.set()
    given = replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})
    topic.runner.edit(lambda ownership: ownership.grants.on_node(given))
    wait_for(lambda: len(Client.assigned) > 1 and bool(Client.closers))
    first, second = Client.assigned[:2]
    assert first != second
    assert Client.closed[0] == first
    assert Client.closers[0] == ("close-t", True)
    assert not topic.problem
