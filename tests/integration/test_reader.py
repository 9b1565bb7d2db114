"""What an executor reads, from a real broker: gaps, limits, losses."""

import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_apps.errors import DataLost, ReadFailed
from spark_apps.records import reader
from spark_apps.records.batches import Range
from spark_apps.records.reader import BATCH_BYTES, Job
from tests.integration.agent_site import wait_for
from tests.integration.kafka_topics import expire, new_topic, produce, set_broker, transaction
from tests.sasl_kafka import SaslKafka


@pytest.fixture
def servers(kafka: SaslKafka) -> str:
    return kafka.bootstrap_servers


def job(servers: str, topic: str, *ranges: Range, fail: bool = True, limit_s: float = 20.0, **kafka: str) -> Job:
    settings = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in kafka.items()}}
    return Job(topic, ranges, settings, fail_on_data_loss=fail, progress_timeout_s=limit_s)


def offsets(one: Job) -> list[int]:
    found = [offset for batch in reader.read(one) for offset in batch["offset"].to_pylist()]
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
    servers: str, with_transactions: str, start: int, end: int, expected: list[int]
) -> None:
    one = job(servers, with_transactions, Range(0, start, end, 1), isolation_level="read_committed")
    began = time.monotonic()
    assert offsets(one) == expected
    assert time.monotonic() - began < 60, "it waited for the limit of a read without progress"


def test_compaction_leaves_gaps(servers: str) -> None:
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
    wait_for(lambda: len(offsets(whole)) < 51, "the log is compacted")
    assert offsets(whole) == [49, 50]
    assert offsets(job(servers, topic, Range(0, 10, 40, 1))) == []


@pytest.fixture
def shortened(servers: str) -> str:
    """Offsets 0-9, of which 0-3 are deleted, as retention does it."""
    topic = new_topic(servers, 2)
    produce(servers, topic, [b"v"] * 10)
    produce(servers, topic, [b"v"] * 10, partition=1)
    expire(servers, topic, 0, 4)
    return topic


def test_lost_records_are_an_error_that_names_them(servers: str, shortened: str) -> None:
    says = f"topic {shortened}, partition 0, planned 2 to 7: offsets 2 to 3 are gone, the log begins at 4"
    with pytest.raises(DataLost, match=says):
        offsets(job(servers, shortened, Range(0, 2, 8, 1)))


def test_lost_records_are_reported_and_passed_over_when_told_so(
    servers: str, shortened: str, caplog: pytest.LogCaptureFixture
) -> None:
    both = job(servers, shortened, Range(0, 2, 8, 1), Range(1, 0, 10, 1), fail=False)
    found = [
        place
        for batch in reader.read(both)
        for place in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    ]
    assert sorted(found) == [(0, offset) for offset in range(4, 8)] + [(1, offset) for offset in range(10)]
    assert "offsets 2 to 3 are gone" in caplog.text


def test_a_range_behind_the_logs_end_is_lost(servers: str, shortened: str) -> None:
    with pytest.raises(DataLost, match=r"offsets 20 to 24 are not there, the log ends at 10"):
        offsets(job(servers, shortened, Range(0, 20, 25, 1)))


def test_a_log_that_ends_within_the_range_has_lost_records(servers: str, shortened: str) -> None:
    with pytest.raises(DataLost, match=r"offsets 10 to 11 are not there, the log ends at 10"):
        offsets(job(servers, shortened, Range(0, 4, 12, 1), limit_s=1.0))


def test_batches_are_capped_by_bytes(servers: str) -> None:
    topic = new_topic(servers, 1)
    produce(servers, topic, [b"x" * 1000] * 6000)
    batches: list[pa.RecordBatch] = list(reader.read(job(servers, topic, Range(0, 0, 6000, 1))))
    assert sum(batch.num_rows for batch in batches) == 6000
    assert max(batch.nbytes for batch in batches) < BATCH_BYTES * 1.2
    # As they come: two that follow each other are together larger than one may be.
    assert 4 <= len(batches) <= 7


def test_many_small_reads_with_ends_before_the_logs_end(servers: str) -> None:
    topic = new_topic(servers, 4)
    for partition in range(4):
        produce(servers, topic, [b"v"] * 400, partition)
    for step in range(100):
        ranges = [Range(partition, step * 4, step * 4 + 1 + partition, 1) for partition in range(4)]
        found = [
            place
            for batch in reader.read(job(servers, topic, *ranges))
            for place in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        ]
        assert sorted(found) == [(one.partition, offset) for one in ranges for offset in range(one.start, one.end)]


def test_a_reader_that_stops_early_leaves_a_usable_process(servers: str) -> None:
    topic = new_topic(servers, 1)
    produce(servers, topic, [b"x" * 1000] * 6000)
    early = reader.read(job(servers, topic, Range(0, 0, 6000, 1)))
    next(early)
    early.close()  # type: ignore[attr-defined]
    assert len(offsets(job(servers, topic, Range(0, 0, 6000, 1)))) == 6000


def test_a_broker_that_is_not_there_is_named_after_the_limit() -> None:
    with pytest.raises(ReadFailed, match=r"topic t gave nothing for 0.5 s \(partition 0: at 0, wanted up to 4\)"):
        offsets(job("127.0.0.1:1", "t", Range(0, 0, 5, 1), limit_s=0.5))


def test_wrong_credentials_say_so(kafka: SaslKafka) -> None:
    with pytest.raises(ReadFailed, match=r"(?i)authentication"):
        offsets(
            job(
                kafka.sasl_bootstrap_servers,
                "t",
                Range(0, 0, 5, 1),
                limit_s=2.0,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username="alice",
                sasl_password="no",
            )
        )


def test_reading_joins_no_group_and_commits_nothing(servers: str) -> None:
    topic = new_topic(servers, 1)
    produce(servers, topic, [b"v"] * 5)
    assert offsets(job(servers, topic, Range(0, 0, 5, 1))) == [0, 1, 2, 3, 4]
    admin = AdminClient({"bootstrap.servers": servers})
    assert reader.GROUP not in {group.group_id for group in admin.list_consumer_groups().result(20).valid}
