"""`ports.RecordAccess` on confluent_kafka: read single records by their offsets, and produce records."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from operator import methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from coordinator_tasks.adapters.broker import DEFAULT_LIMIT_S, built
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import KafkaRecord
from coordinator_tasks.library_log import LIBRARY_LOG

Place = tuple[int, int]
AT_ONCE = 500
LOOK_S = 0.1
_OWN = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "queued.max.messages.kbytes": 1_024,
}
_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - its only name
_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001 - its only name
_OF_CONSUMERS = ("fetch.", "queued.", "auto.", "enable.partition.eof", "isolation.level", "group.id")
_HEADERS = methodcaller("headers")
"""Used in place of `message.headers()`.

If a name is not UTF-8, the client raises an error and also returns a broken list. Python notices the error only if the
method is called in this way. Many calls in the usual way end the process by a segmentation fault (confluent-kafka
2.16.1, Python 3.11).
"""


class ConfluentRecords:
    """For one thread at a time. `group`: a group that commits nothing and has no subscribers."""

    def __init__(self, settings: Mapping[str, str], group: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._settings = dict(settings)
        self._group = group
        self._limit_s = limit_s
        self._lost = False  # set if the log lacks the offset that was asked for last

    def partition_count(self, topic: str) -> int:
        described = ConfluentKafkaAdmin(self._settings, self._limit_s).describe([topic])[topic]
        return 0 if described is None else described.partition_count

    def read(
        self, topic: str, spans: Sequence[tuple[int, int, int]], most_bytes: int, isolation: str = ""
    ) -> Mapping[Place, KafkaRecord] | None:
        """See `ports.RecordAccess`. A partition that gives no record within the time limit is an error."""
        level = {"isolation.level": isolation} if isolation else {}
        settings: dict[str, Any] = {**self._settings, **_OWN, **level, "group.id": self._group}
        found: dict[Place, KafkaRecord] = {}
        size = 0
        try:
            with closing(built(lambda: Consumer(settings, logger=LIBRARY_LOG))) as consumer:
                for partition, start, end in sorted(spans):
                    consumer.assign([TopicPartition(topic, partition, start)])
                    for message in self._messages(consumer, topic, partition, end):
                        record = record_of(message)
                        size += record.size
                        if size > most_bytes:
                            return None
                        found[partition, int(message.offset() or 0)] = record
                    if self._lost and end - start > 1:
                        return None
        except KafkaException as error:
            raise KafkaUnavailable(f"records of topic {topic} could not be read again: {error}") from error
        return found

    def _messages(self, consumer: Consumer, topic: str, partition: int, end: int) -> Iterator[Message]:
        """Yield the partition's messages before the offset `end`."""
        self._lost = False
        deadline = time.monotonic() + self._limit_s
        while (left := deadline - time.monotonic()) > 0:
            for message in consumer.consume(AT_ONCE, min(left, LOOK_S)):
                error, offset = message.error(), message.offset()
                if message.partition() != partition:
                    continue
                if error is not None and error.code() not in (*_LOST, _END):
                    raise KafkaException(error)
                self._lost = error is not None and error.code() in _LOST
                if error is not None or offset is None or offset >= end:
                    return
                yield message
                if offset == end - 1:
                    return
                deadline = time.monotonic() + self._limit_s
        raise KafkaUnavailable(
            f"topic {topic}, partition {partition}: records before offset {end} could not be read again within "
            f"{self._limit_s:g} s; check the brokers"
        )

    def send(self, topic: str, records: Sequence[tuple[int, KafkaRecord]]) -> None:
        own = {name: value for name, value in self._settings.items() if not name.startswith(_OF_CONSUMERS)}
        settings = {**own, "acks": "all", "message.timeout.ms": int(self._limit_s * 1_000)}
        problems: list[str] = []

        def delivered(error: Any, _: Message) -> None:
            if error is not None:
                problems.append(str(error))

        producer: Producer = built(lambda: Producer(settings, logger=LIBRARY_LOG))
        try:
            for partition, record in records:
                headers = [*record.headers]
                content: dict[str, Any] = {
                    "value": record.value,
                    "key": record.key,
                    "timestamp": record.timestamp_ms,
                    "headers": headers,
                }
                producer.produce(topic, partition=partition, on_delivery=delivered, **content)
            left = producer.flush(self._limit_s + 1.0)
        except (KafkaException, BufferError) as error:
            raise KafkaUnavailable(f"records could not be written to topic {topic}: {error}") from error
        if problems or left:
            why = problems[0] if problems else "no answer"
            raise KafkaUnavailable(
                f"records could not be written to topic {topic}: {why}; check the topic and the brokers"
            )


def record_of(message: Message) -> KafkaRecord:
    """Return the content of a message."""
    kind, timestamp_ms = message.timestamp()
    return KafkaRecord(_bytes(message.key()), _bytes(message.value()), _headers(message), timestamp_ms, kind - 1)


def _bytes(given: Any) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _headers(message: Any) -> tuple[tuple[str, bytes | None], ...]:
    try:
        return tuple((name, _bytes(value)) for name, value in _HEADERS(message) or ())
    except (SystemError, UnicodeDecodeError):  # a name is not UTF-8, so the client gives no headers
        return ()
