"""The Kafka client of a reader: its protocol, and a client on confluent-kafka's `consume()`.

`fast_fetch` has another client, without a Python object for each record. Both give the same records and errors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.library_log import LIBRARY_LOG
from spark_apps.records.columns import Records, records_of

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class FetchError:
    """An error from Kafka or librdkafka in place of a record; the end of a partition is such an error, too.

    `partition` is -1 for an error without a partition; `offset` is the place in the partition, below 0 if unknown.
    """

    error: KafkaError
    partition: int
    offset: int


class Fetched(Protocol):
    """Fetched records by index, in the order of their arrival; they exist until closed."""

    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """Bytes of key and value."""
    problems: list[FetchError]

    def records(self, chosen: NDArray[np.int64], include_headers: bool) -> Records:
        """Copies of the records with these indexes, in this order."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Client(Protocol):
    """Reads assigned partitions; used by one thread at a time. Errors are `KafkaException`s."""

    complaints: list[KafkaError]
    """The errors of the client as a whole, the oldest first."""

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        """Fetch only these partitions of one topic, from these offsets on."""

    def unassign(self) -> None:
        """Fetch nothing."""

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        """Return the arrived records; waits for `most` records, or until the time is over."""

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """Return the log's first offset and the offset after the last."""

    def close(self) -> None:
        """End the client."""


def built(client: Callable[[], C]) -> C:
    """Return a client of the library; raises `BadSettings` for refused settings."""
    try:
        return client()
    except (KafkaException, ValueError, TypeError) as error:
        cause = error.args[0] if error.args else error
        said = cause.str() if isinstance(cause, KafkaError) else str(error)
        raise BadSettings(f"the Kafka settings are not usable: {said}; correct them") from error


class ConsumeClient:
    """`Client` by `Consumer.consume`: a Python object for each record, whatever the library's version."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.complaints: list[KafkaError] = []
        self._consumer = Consumer({**settings, "error_cb": self.complaints.append}, logger=LIBRARY_LOG)

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(topic, p, offset) for p, offset in sorted(positions.items())])

    def unassign(self) -> None:
        self._consumer.unassign()

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        return _Messages(self._consumer.consume(most, timeout_s))

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        first, last = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        return first, last

    def close(self) -> None:
        self._consumer.close()


class _Messages:
    """`Fetched` of confluent-kafka's messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages: list[Message] = []
        self.problems: list[FetchError] = []
        for message in messages:
            error = message.error()
            if error is None:
                self._messages.append(message)
            else:
                self.problems.append(FetchError(error, _or(message.partition(), -1), _or(message.offset(), 0)))
        self.partitions = np.array([one.partition() for one in self._messages], np.int32)
        self.offsets = np.array([one.offset() for one in self._messages], np.int64)
        self.sizes = np.array([len(one.value() or b"") + len(one.key() or b"") for one in self._messages], np.int64)

    def records(self, chosen: NDArray[np.int64], include_headers: bool) -> Records:
        return records_of([self._messages[index] for index in chosen.tolist()], include_headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._messages = []


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
