"""Topics and records on the tests' broker."""

import itertools
from collections.abc import Iterable

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin

_number = itertools.count(1)


def new_topic(bootstrap_servers: str, partitions: int, *, name: str = "", **config: str) -> str:
    """A topic of its own for one test; underscores in the names of its settings stand for dots."""
    topic = name or f"source-{next(_number)}"
    ConfluentKafkaAdmin({"bootstrap.servers": bootstrap_servers}).create_topic(topic, partitions, **config)
    return topic


def produce(bootstrap_servers: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=partition)
        producer.poll(0)
    if producer.flush(20):
        raise TimeoutError("not everything was produced")


def expire(bootstrap_servers: str, topic: str, partition: int, first: int) -> None:
    """Take away the records before `first`, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": "1"})  # it has to outlive its futures
    for future in admin.delete_records([TopicPartition(topic, partition, first)]).values():
        future.result(20)


def set_broker(bootstrap_servers: str, name: str, value: str) -> None:
    """Change a setting of the running broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([broker])[broker].result(20)


def transaction(producer: Producer, topic: str, values: list[bytes], *, commit: bool) -> None:
    """One whole transaction in partition 0."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    if commit:
        producer.commit_transaction()
    else:
        producer.flush(20)
        producer.abort_transaction()
