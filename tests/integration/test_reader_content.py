"""Records of every kind come out of the reader as the client of librdkafka gives them, whatever the ranges."""

import os
import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from spark_apps.records.batches import Range
from tests.integration import ranges
from tests.integration.kafka_topics import expire, new_topic
from tests.integration.ranges import RangesReader, Row, Wanted
from tests.sasl_kafka import SaslKafka

PARTITIONS = 3
STAMPS = ("CreateTime", "LogAppendTime")
FIRST = int(os.environ.get("READER_START") or random.SystemRandom().randrange(2**32))
SEEDS = int(os.environ.get("READER_SEEDS") or 1)
"""How many seeds are tried beside the fixed ones; the first of them is drawn anew in each run unless it is given."""
KEYS = (None, b"", b"k", b"a longer key than twelve bytes")


@pytest.fixture(scope="module")
def reader() -> Iterator[RangesReader]:
    with ranges.opened() as one:
        yield one


def value_of(chance: random.Random) -> bytes | None:
    size = chance.choice((None, 0, 1, 12, 13, 150, 1000, 40_000, 300_000 if chance.random() < 0.02 else 7))
    return None if size is None else chance.randbytes(size)


def headers_of(chance: random.Random) -> list[tuple[str, bytes | None]] | None:
    count = chance.choice((0, 0, 1, 3))
    choices = (None, b"", b"text", chance.randbytes(200))
    return [(chance.choice(("a", "näme", "")), chance.choice(choices)) for _ in range(count)] or None


def fill(servers: str, topic: str, chance: random.Random, codec: str, count: int) -> None:
    """Records of every kind, half of them in transactions, of which some are aborted."""
    common = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 5}
    plain = Producer(common)
    within = Producer({**common, "transactional.id": f"{topic}-{codec}"})
    within.init_transactions(20)
    while count > 0:
        some = chance.randint(1, 60)
        transactional = chance.random() < 0.5
        if transactional:
            within.begin_transaction()
        for _ in range(some):
            (within if transactional else plain).produce(
                topic,
                value_of(chance),
                chance.choice(KEYS),
                chance.randrange(PARTITIONS),
                timestamp=chance.choice((0, 1, 1_700_000_000_123)),
                headers=headers_of(chance),
            )
        if transactional:
            within.flush(20)
            (within.commit_transaction if chance.random() < 0.7 else within.abort_transaction)(20)
        plain.flush(20)
        count -= some


def consumed(wanted: Wanted) -> list[Row]:
    """The rows as librdkafka's client reads them."""
    settings = {"group.id": "oracle", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**settings, **wanted.kafka})
    rows: list[Row] = []
    for one in wanted.ranges:
        consumer.assign([TopicPartition(wanted.topic, one.partition, one.start)])
        while one.size:
            message = consumer.poll(20)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            if (message.offset() or 0) >= one.end:
                break
            rows.append(row_of(message, wanted, one))
    consumer.close()
    return rows


def row_of(message: Message, wanted: Wanted, one: Range) -> Row:
    kind, time_ms = message.timestamp()
    more: list[object] = []
    if wanted.include_headers:
        more.append(message.headers() or None)
    if wanted.include_assignment:
        more += ["a", 4, one.token_epoch]
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Row(message.key(), message.value(), wanted.topic, partition, offset, time_ms * 1000, kind - 1, tuple(more))


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.place)


def compare(reader: RangesReader, servers: str, chance: random.Random, stamp: str) -> None:
    topic = new_topic(servers, PARTITIONS, message_timestamp_type=stamp)
    for codec in ("none", "gzip", "lz4", "snappy", "zstd"):
        fill(servers, topic, chance, codec, 150)
    expire(servers, topic, 0, 7)
    for number in range(16):
        some = tuple(
            Range(p, start := chance.randrange(7, 80), start + chance.choice((0, 1, 5, 120)), 3 + p)
            for p in chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
        )
        kafka = {
            "bootstrap.servers": servers,
            "isolation.level": chance.choice(("read_committed", "read_uncommitted")),
        }
        wanted = Wanted(topic, some, kafka, include_headers=number % 2 == 0, include_assignment=number % 3 == 0)
        assert in_order(reader.read(wanted)) == in_order(consumed(wanted))


@pytest.mark.parametrize("stamp", STAMPS)
def test_any_records_are_read_as_they_are(kafka: SaslKafka, reader: RangesReader, stamp: str) -> None:
    compare(reader, kafka.bootstrap_servers, random.Random(stamp), stamp)


@pytest.mark.parametrize("number", range(SEEDS))
def test_records_that_were_never_tried_before_are_read_as_they_are(
    kafka: SaslKafka, reader: RangesReader, number: int
) -> None:
    seed = FIRST + number
    print(f"the same records again: make reader SEEDS=1 START={seed}")
    chance = random.Random(seed)
    compare(reader, kafka.bootstrap_servers, chance, chance.choice(STAMPS))


def test_ranges_that_follow_each_other_give_every_record_once(kafka: SaslKafka, reader: RangesReader) -> None:
    """What is fetched beyond a range is kept for the next, unless another owner has read on meanwhile."""
    chance = random.Random(5)
    topic = new_topic(kafka.bootstrap_servers, PARTITIONS)
    fill(kafka.bootstrap_servers, topic, chance, "lz4", 900)
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}
    (everything,) = [consumed(Wanted(topic, [Range(p, 0, 150, 1) for p in range(PARTITIONS)], servers))]
    found: list[Row] = []
    position = dict.fromkeys(range(PARTITIONS), 0)
    while any(at < 150 for at in position.values()):
        some = chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
        wanted = [
            Range(p, position[p], min(150, position[p] + chance.choice((1, 3, 40))), chance.randint(1, 2)) for p in some
        ]
        found += reader.read(Wanted(topic, wanted, servers))
        position.update({one.partition: one.end for one in wanted})
    assert in_order(found) == in_order(everything)


def test_what_is_asked_for_comes_out(kafka: SaslKafka, reader: RangesReader) -> None:
    """One record, so that equal is not equally wrong."""
    topic = new_topic(kafka.bootstrap_servers, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"value", b"key", 1, timestamp=1_700_000_000_123, headers=[("name", None), ("x", b"")])
    producer.flush(20)
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    wanted = Wanted(topic, [Range(1, 0, 1, 9)], servers, include_headers=True, include_assignment=True)
    headers = [("name", None), ("x", b"")]
    (row,) = reader.read(wanted)
    assert row[:5] == (b"key", b"value", topic, 1, 0)
    assert (row.time_us, row.time_type) == (1_700_000_000_123_000, 0)
    assert row.more == (headers, "a", 4, 9)
