"""`ports.RecordAccess` on confluent_kafka: single records by their offsets, and a producer of records."""

import time
from collections.abc import Collection, Mapping, Sequence
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
_OWN = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # The records were read once, so none of an aborted transaction is among them.
    "isolation.level": "read_uncommitted",
    "queued.max.messages.kbytes": 1_024,
}
_GONE = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001 - their only names
_OF_CONSUMERS = ("fetch.", "queued.", "auto.", "enable.partition.eof", "isolation.level", "group.id")
_HEADERS = methodcaller("headers")
"""Not `message.headers()`: see `kafka_samples`."""


class ConfluentRecords:
    """For one thread at a time. `group` commits nothing and has no subscribers."""

    def __init__(self, settings: Mapping[str, str], group: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._settings = dict(settings)
        self._group = group
        self._limit_s = limit_s

    def partition_count(self, topic: str) -> int:
        """See `ports.RecordAccess`."""
        described = ConfluentKafkaAdmin(self._settings, self._limit_s).describe([topic])[topic]
        return 0 if described is None else described.partition_count

    def read(self, topic: str, places: Collection[Place]) -> Mapping[Place, KafkaRecord]:
        """See `ports.RecordAccess`; each record has the time limit of a request."""
        settings: dict[str, Any] = {**self._settings, **_OWN, "group.id": self._group}
        found: dict[Place, KafkaRecord] = {}
        try:
            with closing(built(lambda: Consumer(settings, logger=LIBRARY_LOG))) as consumer:
                for place in sorted(places):
                    consumer.assign([TopicPartition(topic, *place)])
                    message = self._message(consumer, topic, place)
                    if message is not None:
                        found[place] = record_of(message)
        except KafkaException as error:
            raise KafkaUnavailable(f"records of topic {topic} could not be read again: {error}") from error
        return found

    def _message(self, consumer: Consumer, topic: str, place: Place) -> Message | None:
        """Return the first message; `None` if the log has no record at the place."""
        deadline = time.monotonic() + self._limit_s
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None or message.partition() != place[0]:
                continue
            error = message.error()
            if error is None:
                return message if message.offset() == place[1] else None
            if error.code() in _GONE:
                return None
            raise KafkaException(error)
        raise KafkaUnavailable(
            f"topic {topic}, partition {place[0]}, offset {place[1]}: the record could not be read again within "
            f"{self._limit_s:g} s; check the brokers"
        )

    def send(self, topic: str, records: Sequence[tuple[int, KafkaRecord]]) -> None:
        """See `ports.RecordAccess`."""
        own = {name: value for name, value in self._settings.items() if not name.startswith(_OF_CONSUMERS)}
        settings = {
            **own,
            "acks": "all",
            "enable.idempotence": "true",
            "message.timeout.ms": int(self._limit_s * 1_000),
        }
        problems: list[str] = []

        def delivered(error: Any, _: Message) -> None:
            if error is not None:
                problems.append(str(error))

        producer: Producer = built(lambda: Producer(settings, logger=LIBRARY_LOG))
        try:
            for partition, record in records:
                headers: list[tuple[str, str | bytes | None]] = [*record.headers]
                producer.produce(
                    topic, record.value, record.key, partition=partition, headers=headers, on_delivery=delivered
                )
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
    except (SystemError, UnicodeDecodeError):  # a name that is not UTF-8: the client gives no header of this record
        return ()
