"""What the source plans for executors: the tasks of a batch, as the agent and its delivery want them. No Spark."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery
from spark_apps.records.agent_socket import AgentServer
from spark_apps.records.batches import BatchOffset, Range, encode_offset
from spark_apps.records.reader import Job, client_settings
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


def planned(server: AgentServer, delivery: Delivery, node: TopicNode = NODE, **options: str) -> Job:
    """What the one task of a batch is given."""
    offsets = FakeKafka().offsets("g")
    runner = TopicRunner("t", node, Identity("a", "c", 1), FakeClock(), lambda _: offsets, bool, brokers="k:1")
    runner.close()
    runner.agree(delivery)
    server.serve("t", runner)
    reader = AssignedStreamReader({"subscribe": "t", **options}, AgentAddress(str(server.path), "a", 1))
    (task,) = reader.partitions(encode_offset(BatchOffset("t")), encode_offset(BATCH))
    reader.stop()
    return cast(Task, task).job


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
    assert planned(server, delivery, failOnDataLoss=option).fail_on_data_loss is stops


def test_the_settings_file_goes_before_the_topics_properties_and_the_options_before_the_file(
    server: AgentServer, tmp_path: Path
) -> None:
    file = tmp_path / "kafka.json"
    file.touch(mode=0o600)
    file.write_text(
        json.dumps({"bootstrap.servers": "outer:1", "check.crcs": "true", "fetch.wait.max.ms": "9", "linger.ms": "5"})
    )
    properties = {"check.crcs": "false", "fetch.wait.max.ms": "7", "queued.min.messages": "8"}
    options = {"kafka.bootstrap.servers": "inner:1", "kafka.fetch.max.wait.ms": "6", "kafkaSettingsFile": str(file)}
    job = planned(server, Delivery.AT_LEAST_ONCE, replace(NODE, properties=properties), **options)
    expected = {
        "bootstrap.servers": "inner:1",
        "check.crcs": "true",
        "fetch.wait.max.ms": "6",
        "linger.ms": "5",
        "queued.min.messages": "8",
        "group.id": "g",
        "enable.auto.commit": False,
    }
    assert client_settings(job.kafka, job.settings_file, job.options).items() >= expected.items()
