"""The agent's parts for the reader of a topic, by delivery. No Spark."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery
from spark_apps.records.agent_socket import AgentServer, Reading
from tests.fakes.agent_client import AgentClient
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka

NODE = TopicNode("host:9092", "g", 1, "g1", "id-1", initial_partitions=1)


@pytest.fixture
def server() -> Iterator[AgentServer]:
    one = AgentServer(Reading("a", 1))
    yield one
    one.close()


def attached(server: AgentServer, delivery: Delivery, node: TopicNode = NODE, **options: str) -> dict[str, Any]:
    """The input of a query's tasks."""
    offsets = FakeKafka().offsets("g")
    runner = TopicRunner("t", node, Identity("a", "c", 1), FakeClock(), lambda _: offsets, bool, brokers="k:1")
    runner.close()
    runner.agree(delivery)
    server.serve("t", runner)
    client = AgentClient(str(server.path), "r", {"subscribe": "t", **options})
    client.close()
    return client.attached


@pytest.mark.parametrize(
    ("delivery", "option", "stops"),
    [
        (Delivery.AT_LEAST_ONCE, "false", False),
        (Delivery.AT_MOST_ONCE, "false", False),
        (Delivery.EXACTLY_ONCE, "false", True),
        (Delivery.AT_LEAST_ONCE, "true", True),
    ],
)
def test_an_executor_leaves_out_lost_records_only_if_the_delivery_allows_it(
    server: AgentServer, delivery: Delivery, option: str, stops: bool
) -> None:
    assert attached(server, delivery, failOnDataLoss=option)["fail_on_data_loss"] is stops


def test_the_client_gets_the_topics_properties_and_apart_from_them_file_and_options(server: AgentServer) -> None:
    """The reader gives the file's settings priority over the topic's, and the options over the file's."""
    properties = {"check.crcs": "false", "fetch.wait.max.ms": "7"}
    options = {"kafka.bootstrap.servers": "inner:1", "kafka.fetch.max.wait.ms": "6", "kafkaSettingsFile": "kafka.json"}
    found = attached(server, Delivery.AT_LEAST_ONCE, replace(NODE, properties=properties), **options)
    assert found["kafka"] == {**properties, "bootstrap.servers": "k:1", "group.id": "g"}
    assert found["settings_file"] == "kafka.json"
    assert found["options"] == {"bootstrap.servers": "inner:1", "fetch.max.wait.ms": "6"}
