"""Spark's own Kafka source and ours on the same topics: the same columns, and the same rows."""

import itertools
import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.errors import JarsUnavailable
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.java import find_java
from tests.integration.agent_site import wait_for
from tests.integration.both_options import CASES, COUNTS, ENOUGH, WAITING, time_ms, topic_of
from tests.integration.both_sources import LEVELS
from tests.integration.kafka_topics import expire, new_topic, produce, set_broker, transaction
from tests.spark_jars import CONNECTOR

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
RUN_S = 330.0
CODECS = ("gzip", "snappy", "lz4", "zstd")
SOURCES = ("spark", "ours")
READ = (*LEVELS, *CASES, *WAITING)
Rows = dict[tuple[str, int, int], dict[str, Any]]


@pytest.fixture(scope="module")
def connector() -> str:
    try:
        return ",".join(str(jar) for jar in sorted(jars.ensure_jars(CONNECTOR).glob("*.jar")))
    except JarsUnavailable as error:
        pytest.skip(str(error))


class Topics:
    """Everything that a log may have in it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.prefix = f"both-{uuid.uuid4().hex[:8]}-"
        self.open: Producer | None = None

    def make(self, name: str, partitions: int, **config: str) -> str:
        return new_topic(self.servers, partitions, name=self.prefix + name, **config)

    def fill(self) -> None:
        self.compacted = self.make(
            "compacted",
            1,
            cleanup_policy="compact",
            segment_ms="200",
            min_cleanable_dirty_ratio="0.01",
            max_compaction_lag_ms="300",
        )
        self.fill_compacted()
        self.values()
        self.append_times()
        self.transactions()
        self.codecs()
        self.shortened()
        self.make("empty", 3)
        for case in (*CASES, *WAITING):
            self.for_options(case)

    def values(self) -> None:
        any_time = {"retention_ms": "-1", "message_timestamp_after_max_ms": str(2**63 - 1)}
        topic = self.make("values", 3, **any_time)  # partition 1 stays empty
        producer = Producer({"bootstrap.servers": self.servers})
        headers: list[tuple[str, str | bytes | None]] = [
            ("a", b"1"),
            ("a", b"2"),
            ("none", None),
            ("", b""),
            ("ä", b"\xff"),
        ]
        producer.produce(topic, b"value", b"key", partition=0, timestamp=1_700_000_000_123, headers=headers)
        producer.produce(topic, None, b"tombstone", partition=0, timestamp=1)
        producer.produce(topic, b"", None, partition=0, headers=[])
        producer.produce(topic, None, None, partition=2, timestamp=253_402_214_399_999)
        producer.produce(topic, bytes(range(256)), b"", partition=2)
        producer.produce(topic, b"x" * 900_000, partition=2)
        producer.flush(20)

    def append_times(self) -> None:
        topic = self.make("appended", 1, message_timestamp_type="LogAppendTime")
        produce(self.servers, topic, [b"1", b"2", None])

    def transactions(self) -> None:
        topic = self.make("transactions", 2)
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": topic})
        producer.init_transactions(20)
        transaction(producer, topic, [b"a", b"b", b"c"], commit=True)
        transaction(producer, topic, [b"x"] * 500, commit=False)
        transaction(producer, topic, [b"d", b"e"] * 300, commit=True)
        transaction(producer, topic, [b"y", b"z"], commit=False)
        produce(self.servers, topic, [b"outside"], partition=1)
        # One transaction stays open: committed reads end before it, the others read on behind it.
        undecided = {"transactional.id": f"{topic}-open", "transaction.timeout.ms": 900_000}
        self.open = Producer({"bootstrap.servers": self.servers, **undecided})
        self.open.init_transactions(20)
        self.open.begin_transaction()
        self.open.produce(topic, b"undecided", partition=0)
        self.open.flush(20)
        produce(self.servers, topic, [b"behind it"])

    def codecs(self) -> None:
        topic = self.make("codecs", len(CODECS))
        for partition, codec in enumerate(CODECS):
            producer = Producer({"bootstrap.servers": self.servers, "compression.type": codec, "linger.ms": 50})
            for number in range(300):
                producer.produce(topic, b"%d" % number * 20, b"k%d" % number, partition=partition)
            producer.flush(20)

    def shortened(self) -> None:
        topic = self.make("shortened", 1)
        produce(self.servers, topic, [b"v"] * 10)
        expire(self.servers, topic, 0, 4)

    def for_options(self, case: str) -> None:
        topic = new_topic(self.servers, len(COUNTS), name=topic_of(self.prefix, case), retention_ms="-1")
        producer = Producer({"bootstrap.servers": self.servers})
        for partition, count in enumerate(COUNTS):
            for number in range(count):
                producer.produce(topic, b"%d" % number, partition=partition, timestamp=time_ms(number))
        producer.flush(20)

    def fill_compacted(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(300):
            producer.produce(self.compacted, None if number % 7 == 3 else b"%d" % number, b"k%d" % (number % 40))
        producer.flush(20)
        self.compacted_at = time.monotonic()

    def compact(self) -> None:
        """A record in a new segment, so that what is before it may be compacted."""
        time.sleep(max(0.0, self.compacted_at + 0.5 - time.monotonic()))
        produce(self.servers, self.compacted, [b"last"])
        wait_for(lambda: self.readable(self.compacted) < 300, "the log is compacted")

    def readable(self, topic: str) -> int:
        """How many records are left in its only partition."""
        with closing(
            Consumer({"bootstrap.servers": self.servers, "group.id": "look", "enable.partition.eof": True})
        ) as one:
            one.assign([TopicPartition(topic, 0, 0)])
            return next(
                n for n in itertools.count() if (message := one.poll(20)) is None or message.error() is not None
            )


@pytest.fixture(scope="module")
def found(connector: str, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    set_broker(kafka.bootstrap_servers, "log.cleaner.backoff.ms", "200")
    topics = Topics(kafka.bootstrap_servers)
    topics.fill()
    topics.compact()
    folder = tmp_path_factory.mktemp("both")
    command = [sys.executable, "-m", "tests.integration.both_sources", topics.servers, topics.prefix, str(folder)]
    done = subprocess.run(
        [*command, connector],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    yield {
        "prefix": topics.prefix,
        "schemas": {name: (folder / f"{name}.schema").read_text() for name in SOURCES},
        **{f"{name}-{what}": rows(folder / f"{name}-{what}.parquet") for name in SOURCES for what in READ},
        **{name: json.loads((folder / f"{name}.json").read_text()) for name in ("progress", "refused")},
    }
    if topics.open is not None:
        topics.open.abort_transaction(20)


def rows(path: Path) -> Rows:
    listed = pq.read_table(path).to_pylist()
    found = {(row["topic"], row["partition"], row["offset"]): row for row in listed}
    assert len(found) == len(listed), "every record once"
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_the_rows_are_the_same(found: dict[str, Any], level: str) -> None:
    theirs, ours = found[f"spark-{level}"], found[f"ours-{level}"]
    assert ours.keys() == theirs.keys()
    assert [values(ours[key]) for key in sorted(ours)] == [values(theirs[key]) for key in sorted(ours)]


def values(row: dict[str, Any]) -> dict[str, Any]:
    """The source's columns."""
    return {name: value for name, value in row.items() if name not in ("batch", "task")}


def test_the_columns_are_the_same(found: dict[str, Any]) -> None:
    assert found["schemas"]["ours"] == found["schemas"]["spark"]


def test_what_is_compared_has_all_that_it_should(found: dict[str, Any]) -> None:
    prefix = found["prefix"]
    everything, committed = found["spark-read_uncommitted"], found["spark-read_committed"]
    counts = {name: sum(key[0] == prefix + name for key in everything) for name in ("values", "shortened", "codecs")}
    assert counts == {"values": 6, "shortened": 6, "codecs": 1200}
    values = {row["value"] for key, row in everything.items() if key[0] == f"{prefix}transactions"}
    assert {b"a", b"x", b"y", b"undecided", b"behind it", b"outside"} <= values
    decided = {row["value"] for key, row in committed.items() if key[0] == f"{prefix}transactions"}
    assert decided == {b"a", b"b", b"c", b"d", b"e", b"outside"}
    left = [row for key, row in everything.items() if key[0] == f"{prefix}compacted"]
    assert 0 < len(left) < 300
    assert any(row["value"] is None for row in left)
    assert {row["timestampType"] for row in everything.values()} == {0, 1}
    assert any(row["headers"] for row in everything.values())


@pytest.mark.parametrize("case", CASES)
def test_with_options_the_same_records_come_in_the_same_tasks(found: dict[str, Any], case: str) -> None:
    theirs, ours = found[f"spark-{case}"], found[f"ours-{case}"]
    first = CASES[case].first
    wanted = {(p, offset) for p, count in enumerate(COUNTS) for offset in range(first[p], count)}
    assert {key[1:] for key in theirs} == wanted
    assert [values(ours[key]) for key in sorted(ours)] == [values(theirs[key]) for key in sorted(theirs)]
    if CASES[case].tasks:
        assert tasks(ours) == tasks(theirs)
        assert len(tasks(ours)) == CASES[case].tasks


def tasks(rows: Rows) -> list[tuple[int, int]]:
    """For each task its partition and how many records it has read."""
    return sorted((p, count) for (_, _, p), count in Counter(map(task_of, rows.values())).items())


def task_of(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["batch"], row["task"], row["partition"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_batch_waits_for_so_many_offsets_or_until_the_delay_is_over(found: dict[str, Any], name: str) -> None:
    batches = [row["batch"] for row in found[f"{name}-enough"].values()]
    assert batches.count(max(batches)) == ENOUGH
    assert len(found[f"{name}-late"]) == sum(COUNTS) + 1


def test_the_progress_has_the_metrics_of_sparks_source_and_the_lag_by_partition(found: dict[str, Any]) -> None:
    progress = found["progress"]
    ours = progress[f"ours-{LEVELS[0]}-{found['prefix']}codecs"]
    assert [one["latest"]["lag"] for one in ours] == [dict.fromkeys("0123", 300), dict.fromkeys("0123", 125)]
    assert [one["latest"]["maxOffsetsBehindLatest"] for one in ours] == [300, 125]
    theirs = [one["metrics"] for one in progress[f"spark-{LEVELS[0]}"]]
    names = {"minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"}
    assert names <= theirs[0].keys()
    distances = [{name: float(value) for name, value in one["metrics"].items()} for one in ours]
    assert distances == [dict.fromkeys(names, 125.0), dict.fromkeys(names, 0.0)]
    assert int(theirs[0]["maxOffsetsBehindLatest"]) > int(theirs[-1]["maxOffsetsBehindLatest"])


SPARK_REFUSES = {
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
}


def test_spark_refuses_what_the_page_says_that_it_refuses(found: dict[str, Any]) -> None:
    ends = {"endingoffsets", "endingoffsetsbytimestamp"}
    assert set(found["refused"]) == ends | {name.lower() for name in SPARK_REFUSES}
