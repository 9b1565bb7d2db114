"""Topics and records on the tests' broker."""

import itertools
import time
from collections.abc import Callable, Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

_number = itertools.count(1)


def new_topic(bootstrap_servers: str, partitions: int, *, name: str = "", **config: str) -> str:
    """A topic of its own for one test; underscores in the names of its settings stand for dots."""
    topic = name or f"source-{next(_number)}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result(20)
    return topic


def produce(bootstrap_servers: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=partition)
        producer.poll(0)
    if producer.flush(20):
        raise TimeoutError("not everything was produced")


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


def wait_for(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    """For what the broker does in its own time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
