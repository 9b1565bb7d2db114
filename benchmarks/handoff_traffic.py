"""A record to every partition of several topics at every tick, in one request, as by Kafka's own producer.

librdkafka sends a request for each partition (confluentinc/librdkafka#1700): with a thousand partitions and twenty
ticks a second, broker and client would take a core for mere traffic of a measurement. The records are alike, so the
batch is built once per tick; the broker must lead all partitions and hand out the same offset in each.
"""

import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator_tasks.signals import stopped_by
from tests.faults.roles import die_with_parent

PRODUCE, VERSION = 0, 7
LEADER_ONLY, ANSWER_MS = 1, 30_000
CASTAGNOLI = 0x82F63B78
VALUE_BYTES = 100


@dataclass(frozen=True, slots=True)
class TrafficOrder:
    """Output of the process: to `log` the first offset of these topics, then the time of each tick, as 8-byte floats."""

    kafka: str
    topics: tuple[str, ...]
    partitions: int
    per_second: float
    log: Path


def produce(order: TrafficOrder) -> None:
    """Produce until SIGTERM; every tick in the log is confirmed by the broker in all partitions."""
    die_with_parent()
    host, _, port = order.kafka.rpartition(":")
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    first = -1
    with stopped_by(signal.SIGTERM) as stop, socket.create_connection((host, int(port))) as broker:
        broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due, number = time.monotonic(), 0
        while not stop.wait(max(0.0, due - time.monotonic())):
            due, at = max(due + 1 / order.per_second, time.monotonic() - 1.0), time.monotonic()
            broker.sendall(request(order.topics, order.partitions, number))
            (offset,) = set(offsets(_answer(broker), order.partitions * len(order.topics)))
            if first < 0:
                first = offset
                os.write(log, struct.pack("<d", first))
            if offset != first + number:
                raise SystemExit(f"tick {number} has got the offset {offset} instead of {first + number}")
            os.write(log, struct.pack("<d", at))
            number += 1
    os._exit(0)


def request(topics: Sequence[str], partitions: int, number: int) -> bytes:
    """Return a Produce request of one record to every partition."""
    batch = record_batch(str(number).encode().ljust(VALUE_BYTES), int(time.time() * 1000))
    sized = struct.pack(">i", len(batch)) + batch
    each = b"".join(struct.pack(">i", partition) + sized for partition in range(partitions))
    body = b"".join(_text(topic) + struct.pack(">i", partitions) + each for topic in topics)
    head = struct.pack(">hhi", PRODUCE, VERSION, number % 2**31) + _text("traffic")
    settings = struct.pack(">hhii", -1, LEADER_ONLY, ANSWER_MS, len(topics))
    whole = head + settings + body
    return struct.pack(">i", len(whole)) + whole


def record_batch(value: bytes, at_ms: int) -> bytes:
    """Return a record as a batch of format 2, whose checksum begins with the attributes."""
    record = b"\0\0\0\1" + _varint(len(value)) + value + b"\0"  # attributes, two deltas, no key; no headers
    record = _varint(len(record)) + record
    told = struct.pack(">hiqqqhii", 0, 0, at_ms, at_ms, -1, -1, -1, 1) + record
    length = 4 + 1 + 4 + len(told)
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c(told)) + told


def offsets(answer: bytes, expected: int) -> list[int]:
    """Return the offsets of the records. Raises `SystemExit` when the broker has refused a record."""
    place, found = 4, []  # behind the correlation
    (topics,) = struct.unpack_from(">i", answer, place)
    place += 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", answer, place)
        place += 2 + length
        (partitions,) = struct.unpack_from(">i", answer, place)
        place += 4
        for _ in range(partitions):
            partition, error, offset, _at, _start = struct.unpack_from(">ihqqq", answer, place)
            place += 30
            if error:
                raise SystemExit(f"the broker refused a record of partition {partition}: error code {error}")
            found.append(offset)
    if len(found) != expected:
        raise SystemExit(f"the broker answered for {len(found)} of {expected} partitions")
    return found


def _answer(broker: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(broker, 4))
    return _exactly(broker, length)


def _exactly(broker: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = broker.recv(length)
        if not part:
            raise SystemExit("the broker has closed the connection of the traffic")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _varint(number: int) -> bytes:
    """Zigzag, seven bits a byte."""
    number, found = number << 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


TABLE = _table()


def crc32c(data: bytes) -> int:
    """The checksum of a record batch."""
    found = 0xFFFFFFFF
    for byte in data:
        found = found >> 8 ^ TABLE[(found ^ byte) & 0xFF]
    return found ^ 0xFFFFFFFF
