"""Every commit that Kafka has taken, in its order, from the broker's own log of them (`__consumer_offsets`)."""

import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets
from coordinator_tasks.core.codecs.status_codec import decode_metadata
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Committed

V = TypeVar("V")
INSIST_S = 120.0
OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_KEY_VERSIONS = (0, 1)  # of an offset commit; 2 is a group's metadata
WITH_LEADER_EPOCH = 3  # value version from which on a leader epoch follows the offset
COMPACT = 4  # value version from which on texts are compact strings
CATCH_UP_S = 45.0
"""A transaction lives for 10 s, and the broker looks every 10 s for those that are over."""


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One committed entry; `at` is the broker's time, in seconds, cut to milliseconds."""

    partition: int
    entry: Committed
    at: float


class _Bytes:
    """Kafka's big-endian encoding of numbers and short strings."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._raw, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def text(self, *, compact: bool = False) -> str:
        length = self._unsigned() - 1 if compact else self.number("h")
        found = self._raw[self._at : self._at + length]
        self._at += length
        return found.decode()

    def _unsigned(self) -> int:
        """A number in groups of seven bits, the lowest first."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def read_key(raw: bytes) -> tuple[str, str, int] | None:
    """Group, topic and partition; `None` for a record that is about something else."""
    key = _Bytes(raw)
    if key.number("h") not in OFFSET_KEY_VERSIONS:
        return None
    return key.text(), key.text(), key.number("i")


def read_value(partition: int, raw: bytes) -> LoggedCommit:
    value = _Bytes(raw)
    version, offset = value.number("h"), value.number("q")
    if version >= WITH_LEADER_EPOCH:
        value.number("i")
    metadata, at_ms = value.text(compact=version >= COMPACT), value.number("q")
    # librdkafka's admin client sends the zero that ends its string along.
    return LoggedCommit(partition, decode_metadata(offset, metadata.rstrip("\0")), at_ms / 1000)


class CommitLog:
    """Follows the broker's log in a thread of its own; the broker has one partition of it.

    What a transaction has begun and not ended is no commit.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._commits: dict[tuple[str, str], list[LoggedCommit]] = {}
        self._position = 0
        self._moved = threading.Condition()
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "commit-log",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "100",
                "enable.partition.eof": "true",
                "log_level": "1",
            }
        )
        own = {"bootstrap.servers": bootstrap_servers, "isolation.level": "read_uncommitted", "log_level": "1"}
        self._ends = ConfluentGroupOffsets(own, "commit-log")
        self._consumer.assign([TopicPartition(OFFSETS_TOPIC, 0, 0)])
        self._thread = threading.Thread(target=self._run, name="commit-log", daemon=True)
        self._thread.start()

    def of(self, group: str, topic: str) -> list[LoggedCommit]:
        """All commits that the broker had taken when this was called.

        Those behind a transaction that a killed process has begun are not shown before the broker has ended it: waited for.
        """
        end = insist(self._end)
        with self._moved:
            if not self._moved.wait_for(lambda: self._position >= end, CATCH_UP_S):
                raise AssertionError(f"the commit log stands at {self._position} of {end}")
            return list(self._commits.get((group, topic), ()))

    def _end(self) -> int:
        self._ends.describe(OFFSETS_TOPIC)  # as in `Servers.ends`
        return self._ends.ends(OFFSETS_TOPIC, [0])[0]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(1000, 0.1)
            with self._moved:
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        continue
                    if error is None:
                        self._take(message.key() or b"", message.value())
                    # At the end, the position is behind the marks of transactions, which never come as messages.
                    self._position = max(self._position, (message.offset() or 0) + (error is None))
                self._moved.notify_all()
            if not messages:
                time.sleep(0.02)

    def _take(self, key: bytes, value: bytes | None) -> None:
        named = read_key(key)
        if named is None or value is None:
            return
        group, topic, partition = named
        self._commits.setdefault((group, topic), []).append(read_value(partition, value))


def insist(ask: Callable[[], V]) -> V:
    """Return Kafka's answer, as soon as there is one.

    Partitions that have just been made have no leaders, and the broker makes its own topics.
    """
    deadline = time.monotonic() + INSIST_S
    while True:
        try:
            return ask()
        except KafkaUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def by_partition(commits: list[LoggedCommit]) -> Mapping[int, list[LoggedCommit]]:
    """In the broker's order."""
    found: dict[int, list[LoggedCommit]] = {}
    for one in commits:
        found.setdefault(one.partition, []).append(one)
    return found
