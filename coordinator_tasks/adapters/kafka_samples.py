"""`ports.RecordSampler` on a confluent_kafka consumer: reads a few records of each partition, and keeps none."""

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from coordinator_tasks.adapters.broker import built
from coordinator_tasks.adapters.kafka_records import AT_ONCE, record_of
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.library_log import LIBRARY_LOG

LIMIT_S = 3.0
"""Seconds for a sample of all requested partitions. A partition that takes longer gets no figure."""
_OWN = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # A broker sends whole batches, at least one for each partition. One batch is enough.
    "max.partition.fetch.bytes": 4_096,
    "queued.max.messages.kbytes": 1_024,
    "fetch.queue.backoff.ms": 1_000,
}


class ConfluentRecordSampler:
    """For one thread. `group`: a group that commits nothing and has no subscribers."""

    def __init__(self, settings: Mapping[str, str], group: str) -> None:
        self._settings: dict[str, Any] = {**settings, **_OWN, "group.id": group}

    def mean_bytes(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
        try:
            with closing(built(lambda: Consumer(self._settings, logger=LIBRARY_LOG))) as consumer:
                consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])
                return self._means(consumer, len(offsets))
        except KafkaException as error:
            raise KafkaUnavailable(f"records of topic {topic} could not be sampled: {error}") from error

    @staticmethod
    def _means(consumer: Consumer, wanted: int) -> dict[int, float]:
        deadline = time.monotonic() + LIMIT_S
        sums: defaultdict[int, int] = defaultdict(int)
        counts: defaultdict[int, int] = defaultdict(int)
        while len(counts) < wanted and (left := deadline - time.monotonic()) > 0:
            for message in consumer.consume(AT_ONCE, min(left, 0.1)):
                partition = message.partition()
                if message.error() is None and partition is not None:
                    sums[partition] += record_of(message).size
                    counts[partition] += 1
        return {partition: sums[partition] / count for partition, count in counts.items()}
