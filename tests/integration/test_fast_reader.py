"""The reader on librdkafka's own queue gives what the reader on `consume()` gives, record by record and error by error."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from coordinator_tasks.core.errors import BadSettings
from spark_apps.errors import DataLost, ReadFailed
from spark_apps.records import librdkafka, reader
from spark_apps.records.batches import Range
from spark_apps.records.columns import Columns
from spark_apps.records.fast_fetch import FastClient, FastFetched
from spark_apps.records.fetching import ConsumeClient
from spark_apps.records.reader import Job
from tests.integration.kafka_topics import expire, new_topic, produce
from tests.sasl_kafka import SaslKafka

PARTITIONS = 3
STAMPS = ("CreateTime", "LogAppendTime")
FIRST = int(os.environ.get("READER_START") or random.SystemRandom().randrange(2**32))
SEEDS = int(os.environ.get("READER_SEEDS") or 1)
"""How many seeds are tried beside the fixed ones; the first of them is drawn anew in each run unless it is given."""
KEYS = (None, b"", b"k", b"a longer key than twelve bytes")


@contextmanager
def only(client: type[FastClient] | type[ConsumeClient]) -> Iterator[None]:
    """Readers use this client; with the settings of both known, none is taken over from another test."""
    reader._idle.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "unfit", lambda: "" if client is FastClient else "the test says so")
        yield
    used = {type(kept.client) for kept in reader._idle.values()}
    reader._idle.clear()
    assert used <= {client}


def read(job: Job) -> pa.Table:
    columns = Columns(job.include_headers, job.include_assignment, job.consumer, job.incarnation)
    table = pa.Table.from_batches(list(reader.read(job)), columns.schema)
    table.validate(full=True)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def same(job: Job) -> pa.Table:
    """What both readers give."""
    found = []
    for client in (FastClient, ConsumeClient):
        with only(client):
            found.append(read(job))
    assert found[0].equals(found[1])
    return found[0]


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


def compare(servers: str, chance: random.Random, stamp: str) -> None:
    """Records of every kind, of which both readers are to read any ranges alike."""
    topic = new_topic(servers, PARTITIONS, message_timestamp_type=stamp)
    for codec in ("none", "gzip", "lz4", "snappy", "zstd"):
        fill(servers, topic, chance, codec, 150)
    expire(servers, topic, 0, 7)
    for number in range(8):
        ranges = tuple(
            Range(p, start := chance.randrange(7, 80), start + chance.choice((0, 1, 5, 120)), 3 + p)
            for p in chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
        )
        level = chance.choice(("read_committed", "read_uncommitted"))
        same(
            Job(
                topic,
                ranges,
                {"bootstrap.servers": servers, "isolation.level": level},
                include_headers=number % 2 == 0,
                include_assignment=number % 3 == 0,
                consumer="a",
            )
        )


@pytest.mark.parametrize("stamp", STAMPS)
def test_any_records_are_read_alike(kafka: SaslKafka, stamp: str) -> None:
    compare(kafka.bootstrap_servers, random.Random(stamp), stamp)


@pytest.mark.parametrize("number", range(SEEDS))
def test_records_that_were_never_tried_before_are_read_alike(kafka: SaslKafka, number: int) -> None:
    seed = FIRST + number
    print(f"the same records again: make reader SEEDS=1 START={seed}")
    chance = random.Random(seed)
    compare(kafka.bootstrap_servers, chance, chance.choice(STAMPS))


def test_what_is_asked_for_comes_out(kafka: SaslKafka) -> None:
    """One record, so that equal is not equally wrong."""
    topic = new_topic(kafka.bootstrap_servers, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"value", b"key", 1, timestamp=1_700_000_000_123, headers=[("name", None), ("x", b"")])
    producer.flush(20)
    job = Job(topic, (Range(1, 0, 1, 9),), {"bootstrap.servers": kafka.bootstrap_servers}, "", True, True, "a", 4)
    (row,) = same(job).to_pylist()
    assert row.pop("timestamp").timestamp() == 1_700_000_000.123
    assert row == {
        "key": b"key",
        "value": b"value",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "name", "value": None}, {"key": "x", "value": b""}],
        "consumer": "a",
        "incarnation": 4,
        "epoch": 9,
    }


def wrong_password(kafka: SaslKafka) -> dict[str, str]:
    return kafka.login("no")


@pytest.mark.parametrize(
    ("settings", "one", "says"),
    [
        pytest.param(wrong_password, Range(0, 0, 5, 1), "(?i)authentication", id="a wrong password"),
        pytest.param(lambda _: {"bootstrap.servers": "127.0.0.1:1"}, Range(0, 0, 5, 1), "gave nothing", id="no broker"),
        pytest.param(lambda _: {"nonsense": "1"}, Range(0, 0, 5, 1), "not usable: .*nonsense", id="a setting"),
        pytest.param(lambda _: {}, Range(7, 0, 5, 1), "UNKNOWN_PARTITION|UNKNOWN_TOPIC|gave nothing", id="a partition"),
        pytest.param(lambda _: {}, Range(0, 90, 95, 1), "the log ends at 5", id="behind the end"),
    ],
)
def test_errors_are_told_alike(
    kafka: SaslKafka, settings: Callable[[SaslKafka], dict[str, str]], one: Range, says: str
) -> None:
    topic = new_topic(kafka.bootstrap_servers, 1)
    produce(kafka.bootstrap_servers, topic, [b"v"] * 5)
    given = {"bootstrap.servers": kafka.bootstrap_servers, **settings(kafka)}
    told: list[type[BaseException]] = []
    for client in (FastClient, ConsumeClient):
        with only(client), pytest.raises((BadSettings, ReadFailed, DataLost), match=says) as raised:
            read(Job(topic, (one,), given, progress_timeout_s=1.0))
        told.append(raised.type)
    assert told[0] is told[1]


def test_a_record_that_looks_different_changes_to_consume_without_a_loss(
    kafka: SaslKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(kafka.bootstrap_servers, 1)
    produce(kafka.bootstrap_servers, topic, [b"v"] * 9000)
    fetches: list[Sequence[int]] = []
    check = FastFetched._check_time

    def fails_later(self: FastFetched, message: int, row: object) -> None:
        fetches.append(self.offsets.tolist())
        if len(fetches) > 2:
            raise librdkafka.Unfit("a record's time is elsewhere")
        check(self, message, row)

    monkeypatch.setattr(FastFetched, "_check_time", fails_later)
    reader._idle.clear()
    found = read(Job(topic, (Range(0, 0, 9000, 1),), {"bootstrap.servers": kafka.bootstrap_servers}))
    assert found["offset"].to_pylist() == list(range(9000))
    assert 0 < fetches[0][-1] < 8999
    assert "records are read by consume() from here on: a record's time is elsewhere" in caplog.text
    reader._idle.clear()
