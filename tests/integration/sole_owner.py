"""An agent of ours without ZooKeeper, on a real broker: it owns every partition of its topic."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.ports import GroupOffsets
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.spark.topic_query import START_ATTEMPTS
from spark_apps.spark.warm_up import SLOW_START


def sole_owner(servers: str, topic: str, group: str) -> TopicRunner:
    """Begins when a query asks for the topic; close it."""
    described = ConfluentKafkaAdmin({"bootstrap.servers": servers}).describe([topic])[topic]
    assert described is not None
    partitions = range(described.partition_count)
    node = TopicNode(
        servers,
        group,
        1,
        "g1",
        described.topic_id,
        initial_partitions=len(partitions),
        assignments=dict.fromkeys(partitions, "a"),
        since=dict.fromkeys(partitions, 1),
        incarnations={"a": 1},
    )
    runner = TopicRunner(
        topic,
        node,
        Identity("a", "c", 1),
        SystemClock(),
        connect,
        bool,
        brokers=node.bootstrap_servers,
        acquiring=False,
    )
    runner.edit(lambda ownership: ownership.grants.on_node(node))
    return runner


def connect(node: TopicNode) -> GroupOffsets:
    settings = {"isolation.level": "read_uncommitted", **node.properties, "bootstrap.servers": node.bootstrap_servers}
    return ConfluentGroupOffsets(settings, node.group_id)


def begun(runner: TopicRunner, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has begun to read; started again where Python was too slow for Spark, as consumers do."""
    for _ in range(START_ATTEMPTS):
        query = start()
        while query.isActive and not runner.edit(lambda ownership: ownership.grants.opened):
            time.sleep(0.02)
        if SLOW_START not in str(query.exception()):
            break
    return query
