"""A topic's runner: what its reader is told, and how the log's ends are asked for."""

import time
from collections.abc import Iterator

import pytest

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.ports import GroupOffsets
from spark_apps.agent.runner import TopicRunner
from spark_apps.agent.settings import Identity
from spark_apps.options import parse_options
from tests.fakes.kafka import FakeKafka

PROPERTIES = {"isolation.level": "read_committed", "fetch.max.wait.ms": "7", "max.poll.records": "5"}


class Connected:
    """A runner of topic `t`, and the isolation levels that it has connected with."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        self.levels: list[str | None] = []
        node = TopicNode("host:9092", "g", 1, "g1", "id-1", initial_partitions=1, properties=PROPERTIES)
        self.runner = TopicRunner("t", node, Identity("a", "c", 1), SystemClock(), self.connect, bool)

    def connect(self, node: TopicNode) -> GroupOffsets:
        self.levels.append(node.properties.get("isolation.level"))
        return self.kafka.offsets(node.group_id)

    def connected(self, levels: list[str]) -> bool:
        until = time.monotonic() + 10
        while self.levels != levels and time.monotonic() < until:
            time.sleep(0.01)
        return self.levels == levels


@pytest.fixture
def connected() -> Iterator[Connected]:
    one = Connected()
    yield one
    one.runner.close()


def test_the_consumer_properties_of_the_topic_reach_its_reader_and_what_cannot_be_used_is_said(
    connected: Connected,
) -> None:
    given = connected.runner.attach("r", parse_options({"subscribe": "t"}))
    assert given == {"bootstrap.servers": "host:9092", "isolation.level": "read_committed", "fetch.wait.max.ms": "7"}
    assert any("property max.poll.records of the topic is not used" in one for one in connected.runner.status().reports)
    assert connected.connected(["read_committed"])


def test_the_ends_are_those_that_the_reader_reaches_by_its_own_option(connected: Connected) -> None:
    assert connected.connected(["read_committed"])
    connected.runner.attach("r", parse_options({"subscribe": "t", "kafka.isolation.level": "read_uncommitted"}))
    assert connected.connected(["read_committed", "read_uncommitted"])
    connected.runner.attach("r2", parse_options({"subscribe": "t", "kafka.isolation.level": "read_uncommitted"}))
    assert connected.connected(["read_committed", "read_uncommitted"]), "the same again changes nothing"
