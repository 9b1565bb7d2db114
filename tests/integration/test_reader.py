"""What an executor reads, from a real broker: gaps, limits, losses."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_apps.records.batches import Range
from tests.integration import ranges
from tests.integration.agent_site import wait_for
from tests.integration.kafka_topics import expire, new_topic, produce, set_broker, transaction
from tests.integration.ranges import RangesReader, ReadError, Wanted
from tests.sasl_kafka import SaslKafka


@pytest.fixture
def servers(kafka: SaslKafka) -> str:
    return kafka.bootstrap_servers


@pytest.fixture(scope="module")
def reader() -> Iterator[RangesReader]:
    with ranges.opened() as one:
        yield one


def job(servers: str, topic: str, *wanted: Range, fail: bool = True, limit_s: float = 20.0, **kafka: str) -> Wanted:
    settings = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in kafka.items()}}
    return Wanted(topic, wanted, settings, fail_on_data_loss=fail, progress_timeout_s=limit_s)


def offsets(reader: RangesReader, one: Wanted) -> list[int]:
    found = [row.offset for row in reader.read(one)]
    assert found == sorted(set(found))
    return found


@pytest.fixture
def with_transactions(servers: str) -> str:
    """Offsets 0-2 committed, 3 its marker, 4-6 aborted, 7 its marker, 8-9 committed, 10 its marker."""
    topic = new_topic(servers, 1)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(20)
    transaction(producer, topic, [b"a", b"b", b"c"], commit=True)
    transaction(producer, topic, [b"x", b"y", b"z"], commit=False)
    transaction(producer, topic, [b"d", b"e"], commit=True)
    return topic


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(0, 11, [0, 1, 2, 8, 9], id="all of it, ending on a marker"),
        pytest.param(0, 4, [0, 1, 2], id="ending on a marker with more behind it"),
        pytest.param(4, 8, [], id="only what was aborted"),
        pytest.param(10, 11, [], id="only the last marker"),
        pytest.param(9, 11, [9], id="one record and the marker"),
        pytest.param(5, 9, [8], id="from within what was aborted"),
    ],
)
def test_committed_reads_end_on_the_position(
    reader: RangesReader, servers: str, with_transactions: str, start: int, end: int, expected: list[int]
) -> None:
    one = job(servers, with_transactions, Range(0, start, end, 1), isolation_level="read_committed")
    began = time.monotonic()
    assert offsets(reader, one) == expected
    assert time.monotonic() - began < 60, "it waited for the limit of a read without progress"


def test_compaction_leaves_gaps(reader: RangesReader, servers: str) -> None:
    set_broker(servers, "log.cleaner.backoff.ms", "200")
    topic = new_topic(
        servers,
        1,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="300",
    )
    produce(servers, topic, [b"%d" % number for number in range(50)])
    time.sleep(0.5)
    produce(servers, topic, [b"last"])  # a new segment, so that the first may be compacted
    whole = job(servers, topic, Range(0, 0, 51, 1))
    wait_for(lambda: len(offsets(reader, whole)) < 51, "the log is compacted")
    assert offsets(reader, whole) == [49, 50]
    assert offsets(reader, job(servers, topic, Range(0, 10, 40, 1))) == []


@pytest.fixture
def shortened(servers: str) -> str:
    """Offsets 0-9, of which 0-3 are deleted, as retention does it."""
    topic = new_topic(servers, 2)
    produce(servers, topic, [b"v"] * 10)
    produce(servers, topic, [b"v"] * 10, partition=1)
    expire(servers, topic, 0, 4)
    return topic


def test_lost_records_are_an_error_that_names_them(reader: RangesReader, servers: str, shortened: str) -> None:
    says = f"topic {shortened}, partition 0, planned 2 to 7: offsets 2 to 3 are gone, the log begins at 4"
    with pytest.raises(ReadError, match=f"DataLost: {says}"):
        offsets(reader, job(servers, shortened, Range(0, 2, 8, 1)))


def test_lost_records_are_reported_and_passed_over_when_told_so(
    reader: RangesReader, servers: str, shortened: str
) -> None:
    both = job(servers, shortened, Range(0, 2, 8, 1), Range(1, 0, 10, 1), fail=False)
    found = sorted(row.place for row in reader.read(both))
    assert found == [(0, offset) for offset in range(4, 8)] + [(1, offset) for offset in range(10)]
    assert "offsets 2 to 3 are gone" in reader.log


def test_a_range_behind_the_logs_end_is_lost(reader: RangesReader, servers: str, shortened: str) -> None:
    with pytest.raises(ReadError, match=r"DataLost: .*offsets 20 to 24 are not there, the log ends at 10"):
        offsets(reader, job(servers, shortened, Range(0, 20, 25, 1)))


def test_a_log_that_ends_within_the_range_has_lost_records(reader: RangesReader, servers: str, shortened: str) -> None:
    with pytest.raises(ReadError, match=r"DataLost: .*offsets 10 to 11 are not there, the log ends at 10"):
        offsets(reader, job(servers, shortened, Range(0, 4, 12, 1), limit_s=1.0))


def test_a_reader_that_stops_early_leaves_a_usable_process(reader: RangesReader, servers: str) -> None:
    topic = new_topic(servers, 1)
    produce(servers, topic, [b"x" * 1000] * 6000)
    assert len(reader.read(job(servers, topic, Range(0, 0, 6000, 1)), most=1)) == 1
    assert len(offsets(reader, job(servers, topic, Range(0, 0, 6000, 1)))) == 6000


def test_a_broker_that_is_not_there_is_named_after_the_limit(reader: RangesReader) -> None:
    with pytest.raises(
        ReadError, match=r"ReadFailed: topic t gave nothing for 0.5 s \(partition 0: at 0, wanted up to 4\)"
    ):
        offsets(reader, job("127.0.0.1:1", "t", Range(0, 0, 5, 1), limit_s=0.5))


def test_reading_joins_no_group_and_commits_nothing(reader: RangesReader, servers: str) -> None:
    topic = new_topic(servers, 1)
    produce(servers, topic, [b"v"] * 5)
    assert offsets(reader, job(servers, topic, Range(0, 0, 5, 1))) == [0, 1, 2, 3, 4]
    admin = AdminClient({"bootstrap.servers": servers})
    assert "assigned-kafka-reader" not in {group.group_id for group in admin.list_consumer_groups().result(20).valid}
