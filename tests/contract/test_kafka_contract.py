"""What the brokers' side must do, on the fake and on a real broker."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.synchronize import Event

import pytest
from confluent_kafka import Consumer, Producer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_records import ConfluentRecords
from coordinator_tasks.adapters.kafka_samples import ConfluentRecordSampler
from coordinator_tasks.core.errors import GroupInUse, KafkaUnavailable, Refused
from coordinator_tasks.core.model import Committed, KafkaRecord, Token
from coordinator_tasks.core.ports import GroupOffsets, KafkaAdmin
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from tests.fakes.kafka import FakeKafka
from tests.faults.commit_log import insist
from tests.integration.kafka_topics import expire

OURS = Committed(5, Token(3, 1, "gen"), "consumer-a", "shop", "id-1")
WAIT_S = 60.0


@dataclass
class Bench:
    admin: KafkaAdmin
    offsets: Callable[[str], GroupOffsets]
    create: Callable[[str, int], None]
    append: Callable[..., None]
    topic: str
    group: str


@pytest.fixture(params=["fake", "real"])
def bench(request: pytest.FixtureRequest) -> Bench:
    name = uuid.uuid4().hex[:8]
    if request.param == "fake":
        fake = FakeKafka()
        return Bench(fake, fake.offsets, fake.create_topic, fake.append, f"t-{name}", f"g-{name}")
    settings = {"bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers}
    admin = ConfluentKafkaAdmin(settings)

    def append(topic: str, partition: int, records: int, at_ms: int = 0) -> None:
        producer = Producer(settings)
        for _ in range(records):
            producer.produce(topic, b"x", partition=partition, timestamp=at_ms)
        assert producer.flush(WAIT_S) == 0

    return Bench(
        admin,
        lambda group: ConfluentGroupOffsets(settings, group),
        admin.create_topic,
        append,
        f"t-{name}",
        f"g-{name}",
    )


def test_a_topic_has_an_id_and_partitions_and_an_unknown_one_is_none(bench: Bench) -> None:
    bench.create(bench.topic, 3)
    found = bench.admin.describe([bench.topic, "no-such-topic"])
    described = found[bench.topic]
    assert described is not None
    assert (described.topic, described.partition_count) == (bench.topic, 3)
    assert described.topic_id
    assert found["no-such-topic"] is None
    assert bench.admin.describe([]) == {}
    assert bench.offsets(bench.group).describe(bench.topic) == described
    assert bench.offsets(bench.group).describe("no-such-topic") is None


def test_commits_come_back_with_what_their_metadata_says(bench: Bench) -> None:
    bench.create(bench.topic, 3)
    group = bench.offsets(bench.group)
    assert group.committed(bench.topic, range(3)) == {}
    group.commit(bench.topic, {0: OURS, 2: Committed(7)})
    expected = {0: OURS, 2: Committed(7)}
    assert group.committed(bench.topic, range(3)) == expected
    answers = bench.admin.committed({bench.group: {bench.topic: [0, 1]}, "another-group": {bench.topic: [0]}})
    ours, other = answers[bench.group], answers["another-group"]
    assert isinstance(ours, Mapping)
    assert ours[bench.topic] == {0: OURS}
    assert isinstance(other, Mapping)
    assert not any(other.values())
    assert bench.admin.committed({}) == {}
    group.commit(bench.topic, {})
    assert group.committed(bench.topic, []) == {}


def test_a_later_commit_replaces_the_earlier_also_backwards(bench: Bench) -> None:
    bench.create(bench.topic, 1)
    group = bench.offsets(bench.group)
    for offset in (9, 4):
        group.commit(bench.topic, {0: Committed(offset, Token(3, 1, "gen"), "a")})
    assert group.committed(bench.topic, [0])[0].offset == 4


def test_ends_and_beginnings_of_many_partitions(bench: Bench) -> None:
    bench.create(bench.topic, 3)
    bench.append(bench.topic, 1, 4)
    group = bench.offsets(bench.group)
    assert group.ends(bench.topic, range(3)) == {0: 0, 1: 4, 2: 0}
    assert group.beginnings(bench.topic, [1]) == {1: 0}
    assert group.ends(bench.topic, []) == {}


def test_offsets_by_time_are_those_of_the_first_record_at_or_after_it_and_else_left_out(bench: Bench) -> None:
    bench.create(bench.topic, 3)
    for partition in (0, 1):
        bench.append(bench.topic, partition, 3, 1_700_000_000_000)
        bench.append(bench.topic, partition, 2, 1_700_000_001_000)
    group = bench.offsets(bench.group)
    wanted = {0: 1_700_000_000_001, 1: 1_700_000_001_001, 2: 1}
    assert group.at_times(bench.topic, wanted) == {0: 3}
    assert group.at_times(bench.topic, {0: 1_700_000_001_000, 1: 5}) == {0: 3, 1: 0}
    assert group.at_times(bench.topic, {}) == {}


def test_a_partition_that_is_not_there_keeps_no_other_ones_bounds_back(bench: Bench) -> None:
    bench.create(bench.topic, 1)
    bench.append(bench.topic, 0, 4)
    group = bench.offsets(bench.group)
    assert (group.beginnings(bench.topic, [0, 7]), group.ends(bench.topic, [0, 7])) == ({0: 0}, {0: 4})
    assert (group.beginnings(bench.topic, [7]), group.ends(bench.topic, [7])) == ({}, {})


def test_offsets_by_time_of_a_partition_that_is_not_there_are_an_error_that_names_it(bench: Bench) -> None:
    bench.create(bench.topic, 1)
    with pytest.raises(KafkaUnavailable, match=f"{bench.topic}-7"):
        bench.offsets(bench.group).at_times(bench.topic, {0: 1, 7: 1})


def test_a_group_without_subscribers_has_no_members(bench: Bench) -> None:
    assert bench.admin.group_members(bench.group) == ()


@pytest.fixture(params=["classic", "consumer"])
def intruder(request: pytest.FixtureRequest, bench: Bench) -> Iterator[None]:
    """A client that subscribes in our group, by either protocol."""
    bench.create(bench.topic, 1)
    bench.offsets(bench.group).commit(bench.topic, {0: OURS})
    if isinstance(bench.admin, FakeKafka):
        bench.admin.members[bench.group] = ("console at 127.0.0.1",)
        yield
        return
    consumer = Consumer(
        {
            "bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers,
            "group.id": bench.group,
            "group.protocol": request.param,
            "client.id": "console",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([bench.topic])
    deadline_s = time.monotonic() + WAIT_S
    while not consumer.assignment() and time.monotonic() < deadline_s:
        consumer.poll(0.1)
    assert consumer.assignment()
    yield
    consumer.close()


@pytest.mark.usefixtures("intruder")
def test_a_subscriber_is_named_and_our_commit_refused_without_effect(bench: Bench) -> None:
    assert bench.admin.group_members(bench.group) == ("console at 127.0.0.1",)
    with pytest.raises(GroupInUse, match=r"console at 127\.0\.0\.1 subscribes.*stop"):
        bench.offsets(bench.group).commit(bench.topic, {0: Committed(9)})
    assert bench.offsets(bench.group).committed(bench.topic, [0]) == {0: OURS}


def test_a_broker_that_is_not_there_is_an_error_in_time_with_the_address() -> None:
    began_s = time.monotonic()
    group = ConfluentGroupOffsets({"bootstrap.servers": "127.0.0.1:1"}, "g", limit_s=1.0)
    for ask in (lambda: group.commit("t", {0: OURS}), lambda: group.committed("t", [0]), lambda: group.ends("t", [0])):
        with pytest.raises(
            KafkaUnavailable, match=r"127\.0\.0\.1:1 does not answer within 1 s.*Connection refused.*check"
        ):
            ask()
    assert time.monotonic() - began_s < 30, "librdkafka would try for a minute by itself"


def test_a_broker_that_stands_still_for_longer_than_a_request_may_take_ends_nobody(kafka: EmbeddedKafka) -> None:
    topic, settings = f"t-{uuid.uuid4().hex[:8]}", {"bootstrap.servers": kafka.bootstrap_servers}
    ConfluentKafkaAdmin(settings).create_topic(topic, 2)
    own = get_context("spawn")
    connected, paused, gave_up = own.Event(), own.Event(), own.Event()
    # In a process of its own, since librdkafka would abort it.
    process = own.Process(target=_commit_around_a_pause, args=(settings, topic, connected, paused, gave_up))
    process.start()
    try:
        assert connected.wait(WAIT_S)
        kafka.pause()
        paused.set()
        assert gave_up.wait(WAIT_S)
    finally:
        kafka.resume()
        process.join(WAIT_S)
        process.kill()
    assert process.exitcode == 0
    assert ConfluentGroupOffsets(settings, topic).committed(topic, [0, 1]) == {0: replace(OURS, offset=2)}


def test_a_broker_that_stood_still_answers_the_first_look_after_it_with_the_present_bounds(
    kafka: EmbeddedKafka,
) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    topic = f"t-{uuid.uuid4().hex[:8]}"
    admin, producer = ConfluentKafkaAdmin(settings, limit_s=1.0), Producer(settings)
    ConfluentKafkaAdmin(settings).create_topic(topic, 2)
    insist(lambda: admin.bounds(topic, [0, 1]))
    kafka.pause()
    try:
        for _ in range(2):
            with pytest.raises(KafkaUnavailable, match="does not answer within 1 s"):
                admin.bounds(topic, [0, 1])
    finally:
        kafka.resume()
    producer.produce(topic, b"x", partition=1)
    assert producer.flush(WAIT_S) == 0
    assert admin.bounds(topic, [0, 1]) == {0: (0, 0), 1: (0, 1)}


def _commit_around_a_pause(
    settings: Mapping[str, str], topic: str, connected: Event, paused: Event, gave_up: Event
) -> None:
    """Nothing of the commits that are given up is sent later: their coordinator is not known before the pause."""
    group = ConfluentGroupOffsets(settings, topic, limit_s=0.5)
    insist(lambda: group.ends(topic, [0]))
    connected.set()
    assert paused.wait(WAIT_S)
    errors = []  # kept, with all that they refer to
    for _ in range(2):
        with pytest.raises(KafkaUnavailable, match="does not answer") as error:
            group.commit(topic, {1: replace(OURS, offset=7)})
        errors.append(error)
    gave_up.set()
    for offset in (1, 2):
        insist(lambda offset=offset: group.commit(topic, {0: replace(OURS, offset=offset)}))


def test_a_wrong_password_is_said_at_once_and_the_right_one_works(request: pytest.FixtureRequest) -> None:
    kafka = request.getfixturevalue("kafka")
    began_s = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=r"refuses the log-in .*Invalid username or password.*check") as raised:
        ConfluentKafkaAdmin(kafka.login("wrong-one"), limit_s=20.0).describe(["t"])
    assert time.monotonic() - began_s < 20.0
    assert "wrong-one" not in str(raised.value)
    assert ConfluentKafkaAdmin(kafka.login("alice-secret")).describe(["t"]) == {"t": None}


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(Refused, match=r"name no bootstrap\.servers"):
        ConfluentKafkaAdmin({})
    with pytest.raises(Refused, match=r'No such configuration property: "acks\.all"'):
        ConfluentKafkaAdmin({"bootstrap.servers": "h:1", "acks.all": "x"})


def test_ends_stop_at_an_open_transaction_only_when_reading_committed(request: pytest.FixtureRequest) -> None:
    servers = {"bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers}
    topic = f"t-{uuid.uuid4().hex[:8]}"
    ConfluentKafkaAdmin(servers).create_topic(topic, 1)
    producer = Producer({**servers, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(WAIT_S)
    committed = ConfluentGroupOffsets({**servers, "isolation.level": "read_committed"}, "g")
    uncommitted = ConfluentGroupOffsets({**servers, "isolation.level": "read_uncommitted"}, "g")
    assert committed.ends(topic, [0]) == {0: 0}
    assert uncommitted.ends(topic, [0]) == {0: 1}
    producer.commit_transaction(WAIT_S)
    deadline_s = time.monotonic() + WAIT_S
    while committed.ends(topic, [0]) != {0: 2} and time.monotonic() < deadline_s:
        time.sleep(0.02)  # the transaction's marker is written after the commit is answered
    assert committed.ends(topic, [0]) == {0: 2}


def test_a_sample_tells_how_large_keys_values_and_headers_are_and_leaves_nothing_in_the_group(
    request: pytest.FixtureRequest,
) -> None:
    servers = {"bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers}
    topic = f"t-{uuid.uuid4().hex[:8]}"
    ConfluentKafkaAdmin(servers).create_topic(topic, 3)
    producer = Producer(servers)
    for _ in range(3):
        producer.produce(topic, b"v" * 1_000, b"k" * 10, partition=0, headers=[("name", b"value"), ("none", None)])
    for size in (100, 10, 30):
        producer.produce(topic, b"v" * size, partition=1)
    producer.flush(WAIT_S)
    found = ConfluentRecordSampler(servers, f"g-{topic}").mean_bytes(topic, {0: 0, 1: 1, 2: 0})
    assert found == {0: 1_023.0, 1: 20.0}
    assert ConfluentGroupOffsets(servers, f"g-{topic}").committed(topic, [0, 1, 2]) == {}


def test_records_are_read_again_by_their_offsets_and_written_with_their_headers(request: pytest.FixtureRequest) -> None:
    servers = {"bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers}
    topic, admin = f"t-{uuid.uuid4().hex[:8]}", ConfluentKafkaAdmin(servers)
    admin.create_topic(topic, 2)
    access = ConfluentRecords(servers, f"g-{topic}")
    record = KafkaRecord(b"k", b"v" * 10, (("name", b"value"), ("name", None)), 1_700_000_000_000)
    access.send(topic, [(0, record), (1, KafkaRecord(value=b"w")), (1, record), (1, record)])
    found = access.read(topic, [(0, 0, 1), (1, 1, 2), (1, 9, 10)], 1_000)
    assert found == {(0, 0): record, (1, 1): record}
    assert list(access.read(topic, [(1, 0, 3)], 1_000) or ()) == [(1, 0), (1, 1), (1, 2)]
    assert list(access.read(topic, [(1, 1, 99)], 1_000) or ()) == [(1, 1), (1, 2)]
    assert access.read(topic, [(1, 0, 3)], 30) is None, "too many bytes"
    expire(servers["bootstrap.servers"], topic, 1, 2)
    assert access.read(topic, [(1, 1, 3)], 1_000) is None, "a part is lost"
    assert access.read(topic, [(1, 1, 2)], 1_000) == {}
    assert (access.partition_count(topic), access.partition_count("t-none")) == (2, 0)
    assert ConfluentGroupOffsets(servers, f"g-{topic}").committed(topic, [0, 1]) == {}


def test_records_that_kafka_does_not_take_are_an_error(request: pytest.FixtureRequest) -> None:
    servers = {"bootstrap.servers": request.getfixturevalue("kafka").bootstrap_servers}
    topic = f"t-{uuid.uuid4().hex[:8]}"
    ConfluentKafkaAdmin(servers).create_topic(topic, 1)
    access = ConfluentRecords(servers, "g", limit_s=3.0)
    with pytest.raises(KafkaUnavailable, match=f"records could not be written to topic {topic}: .*; check the topic"):
        access.send(topic, [(5, KafkaRecord(value=b"x"))])
    with pytest.raises(KafkaUnavailable, match=f"topic {topic}, partition 7: .* within 3 s|could not be read again"):
        access.read(topic, [(7, 0, 1)], 1_000)
