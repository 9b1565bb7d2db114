"""What the source plans for executors: the tasks of a batch, as the agent and its delivery want them. No Spark."""

from collections.abc import Iterator
from typing import cast

import pytest

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery
from spark_apps.records.agent_socket import AgentServer
from spark_apps.records.batches import BatchOffset, Range, encode_offset
from spark_apps.spark.source import AgentAddress, AssignedStreamReader, Task
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka

NODE = TopicNode("host:9092", "g", 1, "g1", "id-1", initial_partitions=1)
BATCH = BatchOffset("t").following([Range(0, 0, 5, 1)], 1)


@pytest.fixture
def server() -> Iterator[AgentServer]:
    one = AgentServer()
    yield one
    one.close()


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
    offsets = FakeKafka().offsets("g")
    runner = TopicRunner("t", NODE, Identity("a", "c", 1), FakeClock(), lambda _: offsets, bool, brokers="k:1")
    runner.close()
    runner.agree(delivery)
    server.serve("t", runner)
    address = AgentAddress(str(server.path), "a", 1)
    reader = AssignedStreamReader({"subscribe": "t", "failOnDataLoss": option}, address)
    (task,) = reader.partitions(encode_offset(BatchOffset("t")), encode_offset(BATCH))
    assert cast(Task, task).job.fail_on_data_loss is stops
    reader.stop()
