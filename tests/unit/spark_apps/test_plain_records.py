"""The way of a record in the plain consumer: assigned, fetched, handed out under the right holding, passed, and covered.

The test takes every step of the reading thread, on a fake log and a fake clock.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition

from coordinator_tasks.core.model import Committed, Handoff, Seek, Token, TopicNode
from spark_apps import plain
from spark_apps.agent.ownership.work import perform
from spark_apps.agent.settings import Identity, Timing
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery, SinkEntry, SinkStep, Writer
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka, perform_due

TIMING = Timing()
NODE = TopicNode("host:9092", "g", 1, "g1", "id-1", incarnations={"a": 1, "b": 1}, initial_partitions=2)


@dataclass(frozen=True)
class Message:
    """A record or an error; without both, the end of the partition."""

    at: tuple[int | None, int]
    wrong: KafkaError | None = None

    def partition(self) -> int | None:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def error(self) -> KafkaError | None:
        return self.wrong

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return str(self.at).encode()


def failed(code: int, partition: int | None, offset: int = -1) -> Message:
    return Message((partition, offset), KafkaError(code))


class Client:
    """A Kafka client: returns all records of assigned partitions from the position on; refuses a position beyond the log."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka
        self.positions: dict[int, int] = {}
        self.refused: set[int] = set()
        self.deleted: set[int] = set()

    def close(self) -> None: ...

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        assert not {one.partition for one in places} & self.positions.keys(), "assigned twice"
        self.positions |= {one.partition: one.offset for one in places}

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        for one in places:
            del self.positions[one.partition]
            self.refused.discard(one.partition)

    def consume(self, _most: int, _poll_s: float) -> list[Message]:
        found: list[Message] = []
        for partition in sorted(self.positions.keys() - self.refused):
            found += self._of(partition)
        return found

    def _of(self, partition: int) -> list[Message]:
        at, (begins, ends) = self.positions[partition], self.kafka.log("t", partition)
        if partition in self.deleted or not begins <= at <= ends:
            self.refused.add(partition)
            code = KafkaError.UNKNOWN_TOPIC_OR_PART if partition in self.deleted else KafkaError._AUTO_OFFSET_RESET
            return [failed(code, partition, at)]
        self.positions[partition] = ends
        return [*(Message((partition, n)) for n in range(at, ends)), failed(KafkaError._PARTITION_EOF, partition, ends)]


class Thread:
    """The reading thread, driven by the test."""

    def __init__(self, **_: object) -> None: ...

    def start(self) -> None: ...


class Stage:
    """Consumer `a` and topic `t` with two partitions; all neighbours answer at once."""

    def __init__(self, clock: FakeClock, client: Client, output: plain.Output | None) -> None:
        self.clock, self.client, self.kafka = clock, client, client.kafka
        self.kafka.create_topic("t", 2)
        for partition in range(2):
            self.kafka.append("t", partition, 10)
        self.offsets = self.kafka.offsets("g")
        self.rows: list[tuple[int, int, int]] = []  # partition, offset, epoch
        self.runner = TopicRunner(
            "t", NODE, Identity("a", "c", 1), self.clock, lambda _: self.offsets, bool, brokers="k:1"
        )
        self.runner.close()
        output = output or plain.Output(self._sink)
        self.runner.agree(output.delivery, output.store)
        self.topic = plain.PlainTopic(self.runner, NODE, {}, output)
        self.node = NODE

    def _sink(self, _topic: str, records: Sequence[plain.Record]) -> None:
        self.rows += [(one.partition, message.offset() or 0, one.token_epoch) for one, message in records]

    def see(self, **changes: object) -> None:
        """The next node; partitions outside of `since` are held from this node on."""
        self.node = replace(self.node, epoch=self.node.epoch + 1, **changes)  # type: ignore[arg-type]
        self.runner.edit(lambda ownership: ownership.grants.on_node(self.node))
        self.tick()

    def own(self, *partitions: int) -> None:
        self.see(assignments=dict.fromkeys(partitions, "a"), since=dict.fromkeys(partitions, self.node.epoch + 1))

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.runner.edit(lambda ownership: perform_due(ownership, self.offsets))

    def fetch(self) -> list[Message]:
        self.topic._follow()
        self.tick()  # the log's ends
        self.topic._follow()
        return self.client.consume(0, 0.0)

    def turn(self, seconds: float = 0.1) -> None:
        """One turn of the thread, commits included."""
        self.topic._process(self.fetch())  # type: ignore[arg-type]
        self.tick(seconds)

    def turns(self, count: int, seconds: float = 0.1) -> None:
        for _ in range(count):
            self.turn(seconds)

    def process(self, *messages: Message) -> None:
        self.topic._process(messages)  # type: ignore[arg-type]

    def read(self, partition: int) -> list[int]:
        return [offset for p, offset, _ in self.rows if p == partition]

    def committed(self, partition: int) -> int:
        return self.offsets.committed("t", [partition])[partition].offset

    def reported(self, text: str) -> bool:
        return any(text in one for one in self.runner.status().reports)


Make = Callable[[plain.Output | None], Stage]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    clock, kafka = FakeClock(), FakeKafka()
    client = Client(kafka)
    monkeypatch.setattr(plain, "threading", SimpleNamespace(Thread=Thread, Event=threading.Event))
    monkeypatch.setattr(plain, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(plain, "Consumer", lambda *_, **__: client)
    return lambda output: Stage(clock, client, output)


@pytest.fixture
def stage(make: Make) -> Stage:
    return make(None)


def test_every_record_passes_once_from_the_committed_position_on(stage: Stage) -> None:
    stage.offsets.commit("t", {1: Committed(4, None)})
    stage.own(0, 1)
    stage.turn()
    stage.kafka.append("t", 0, 5)
    stage.turn()
    assert stage.read(0) == list(range(15))
    assert stage.read(1) == list(range(4, 10))
    assert {epoch for _, _, epoch in stage.rows} == {2}
    assert (stage.committed(0), stage.committed(1)) == (15, 10)


def test_what_was_fetched_for_an_earlier_holding_is_not_handed_out_under_a_later_one(stage: Stage) -> None:
    stage.own(0)
    stage.turn()
    stage.kafka.append("t", 0, 10)
    fetched = stage.fetch()
    stage.see(since={0: 3}, seeks={0: Seek(0, 3)})
    assert stage.runner.ownership.holdings.ready()[0].token == Token(3, 1)
    stage.process(*fetched)
    assert stage.read(0) == list(range(10)), "with offset 10 behind 0, those between would be taken for read"
    stage.turn()
    assert stage.read(0) == [*range(10), *range(20)]


def test_what_is_taken_away_is_fetched_no_longer_and_under_a_new_grant_from_its_position_on(stage: Stage) -> None:
    stage.own(0, 1)
    stage.turn()
    stage.see(assignments={1: "a"}, since={1: stage.node.since[1]})
    stage.turn()
    assert stage.client.positions.keys() == {1}
    stage.own(0, 1)
    stage.turn()
    stage.turn()
    assert stage.topic._assigned == {p: held.token.epoch for p, held in stage.runner.ownership.holdings.ready().items()}
    stage.see(since={**stage.node.since, 0: stage.node.epoch + 1}, seeks={0: Seek(4, stage.node.epoch + 1)})
    stage.turn()
    assert stage.read(0) == [*range(10), *range(4, 10)], "although nothing new has come"


class Fussy:
    """A sink with refused records; while `away`, every record is refused."""

    def __init__(self, *poison: tuple[int, int], error: type[BaseException] = ValueError) -> None:
        self.poison, self.error, self.away = set(poison), error, False
        self.rows: list[tuple[int, int]] = []
        self.calls = 0

    def __call__(self, _topic: str, records: Sequence[plain.Record]) -> None:
        self.calls += 1
        if self.away:
            raise OSError("the database is gone")
        came = [(one.partition, message.offset() or 0) for one, message in records]
        if bad := self.poison.intersection(came):
            raise self.error(f"cannot write {min(bad)}")
        self.rows += came

    def of(self, partition: int) -> list[int]:
        return [offset for p, offset in self.rows if p == partition]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_poison_record_stops_its_partition_alone_and_loses_nothing(make: Make, error: type[BaseException]) -> None:
    sink = Fussy((0, 4), error=error)
    stage = make(plain.Output(sink))
    stage.own(0, 1)
    for _ in range(300):
        stage.turn()
        stage.kafka.append("t", 1, 1)
    assert sink.of(0) == [0, 1, 2, 3], "what stands before it passes, once"
    assert sink.of(1) == list(range(309)), "every record, once, and at once"
    assert (stage.committed(0), stage.committed(1)) == (4, 309)
    assert sink.calls - 300 < 16, "with back-off"
    assert stage.reported(f"partition 0 waits at offset 4: {error.__name__}: cannot write (0, 4) (failed ")
    (failure,) = stage.runner.status().failures
    assert failure.partitions == (0,)
    sink.poison.clear()
    stage.turns(310)
    assert sink.of(0) == list(range(10))
    assert stage.runner.status().failures == ()
    assert not stage.reported("partition 0 waits")


def test_a_sink_that_is_away_is_waited_for_and_asked_seldom(make: Make) -> None:
    sink = Fussy()
    stage = make(plain.Output(sink))
    stage.own(0, 1)
    sink.away = True
    for _ in range(1200):
        stage.turn()
        assert stage.runner.edit(lambda ownership: ownership.batches.stalled(60.0)) == (), (
            "it waits, and is not stalled"
        )
    assert sink.calls < 14, "both together"
    assert stage.reported("partitions 0-1 wait: OSError: the database is gone")
    sink.away = False
    stage.turns(310)
    assert (sink.of(0), sink.of(1)) == (list(range(10)), list(range(10)))
    assert stage.runner.status().failures == ()


@pytest.mark.parametrize(
    "ends",
    [
        lambda stage: (stage.see(paused=frozenset({0})), stage.turn(), stage.see(paused=frozenset())),
        lambda stage: stage.see(
            since={0: stage.node.epoch + 1, 1: stage.node.since[1]}, seeks={0: Seek(5, stage.node.epoch + 1)}
        ),
    ],
    ids=["a pause", "a reset of its offset"],
)
def test_the_back_off_ends_with_its_cause(make: Make, ends: Callable[[Stage], object]) -> None:
    sink = Fussy((0, 4))
    stage = make(plain.Output(sink))
    stage.own(0, 1)
    stage.turns(100)
    assert stage.runner.status().failures
    sink.poison.clear()
    ends(stage)
    stage.turns(5)
    assert sink.of(0)[-1] == 9
    assert stage.runner.status().failures == ()


def test_a_failing_partition_is_given_away_at_once_at_its_committed_position(make: Make) -> None:
    sink = Fussy((0, 4))
    stage = make(plain.Output(sink))
    stage.own(0, 1)
    stage.turns(100)
    epoch = stage.node.epoch + 1
    stage.see(assignments={1: "a"}, since={1: 2}, handoff={0: Handoff("a", "b", epoch)})
    release = stage.runner.ownership.releasing.outbox[0]
    assert (release.offset, release.epoch) == (4, epoch)
    assert stage.runner.status().failures == ()


def test_the_reading_goes_on_until_the_end_and_knows_when_it_last_had_everything(stage: Stage) -> None:
    """A poll with fewer records than allowed leaves nothing in the client."""
    stage.own(0)
    stage.turn()
    stage.kafka.append("t", 0, 3)
    polls: list[float] = []

    def consume(most: int, poll_s: float) -> list[Message]:
        assert (most, poll_s) == (plain.MOST_MESSAGES, plain.POLL_S)
        stage.clock.advance(0.1)
        polls.append(stage.clock.monotonic())
        if len(polls) == 3:
            stage.topic._stop.set()
        return Client.consume(stage.client, most, poll_s) if len(polls) == 2 else []

    closed: list[bool] = []
    stage.topic._kafka = SimpleNamespace(  # type: ignore[assignment]
        consume=consume,
        close=lambda: closed.append(True),
        incremental_assign=stage.client.incremental_assign,
        list_topics=lambda *_, **__: SimpleNamespace(topics={"t": SimpleNamespace(partitions={})}),
    )
    stage.topic._run()
    assert stage.read(0) == list(range(13))
    assert stage.topic._polled_at == polls[-1]
    assert stage.runner.ownership.holdings.held[0].passes.empty_at == polls[0], "before the batch came"
    assert (stage.topic.problem, closed) == ("", [True])


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_reading_that_fails_begins_again_with_another_client_and_says_why(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    stage.own(0)
    consume, told, closed = stage.client.consume, list[str](), list[bool]()

    def another(*_: object, **__: object) -> Client:
        stage.client.positions.clear()
        return stage.client

    def fail_twice(most: int, poll_s: float) -> list[Message]:
        if len(told) < 2:
            raise error("boom")
        stage.topic._stop.set()
        return consume(most, poll_s)

    def wait(pause_s: float) -> None:
        assert len(told) < 2
        told.append(f"{stage.runner.status().reports[0]} {pause_s:g}")

    monkeypatch.setattr(plain, "Consumer", another)
    monkeypatch.setattr(stage.topic, "_warm_up", bool)
    monkeypatch.setattr(stage.topic._stop, "wait", wait)
    monkeypatch.setattr(stage.client, "consume", fail_twice)
    monkeypatch.setattr(stage.client, "close", lambda: closed.append(True))
    stage.topic._run()
    why = f"the topic is not read: {error.__name__}: boom"
    assert told == [f"{why} (failed 1 time; it is tried again) 1", f"{why} (failed 2 times; it is tried again) 2"]
    assert (stage.topic.problem, closed) == ("", [True])
    assert stage.read(0) == list(range(10))
    assert stage.runner.status().failures == ()


def test_a_client_whose_records_wait_for_a_slow_sink_is_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(*, polled_at: float) -> bool:
        """Whether the client is kept, for the time of the last poll without remaining records."""
        stage.clock.advance(plain.STUCK_S)
        stage.topic._polled_at = polled_at
        stage.topic._replace_stuck_client()
        return bool(stage.topic._assigned)

    stage.own(0, 1)
    stage.turn()
    monkeypatch.setattr(stage.topic, "_stalled", lambda _: {1: 10})
    began = stage.clock.monotonic()
    assert looks(polled_at=began)
    assert looks(polled_at=began), "no poll has come since it was seen first"
    while stage.clock.monotonic() - began < plain.SLOW_SINK_STUCK_S:
        assert looks(polled_at=-inf), "each poll brings as much as it can: what is missing may wait behind that"
    assert not looks(polled_at=-inf)
    stage.topic._assigned = {1: 2}
    assert looks(polled_at=stage.clock.monotonic()), "the new one has its time"


def test_each_new_client_has_more_time_than_the_one_before(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipping aborted records may take long, and a new client begins again."""
    monkeypatch.setattr(stage.topic, "_stalled", lambda _: {1: 10})
    began, times = stage.clock.monotonic(), list[float]()
    for _ in range(40):
        stage.topic._assigned = {1: 2}
        stage.clock.advance(plain.STUCK_S)
        stage.topic._polled_at = stage.clock.monotonic()
        stage.topic._replace_stuck_client()
        if not stage.topic._assigned:
            times.append(stage.clock.monotonic() - began)
    assert times == [10.0, 20.0, 50.0, 140.0]


def test_a_client_has_time_and_the_logs_end_is_read_now_and_then(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    asked: list[float] = []
    monkeypatch.setattr(stage.topic, "_replace_stuck_client", lambda: looks.append(stage.clock.monotonic()))
    monkeypatch.setattr(
        stage.runner.ownership.requests, "want_ends", lambda: asked.append(stage.clock.monotonic()), raising=False
    )
    for _ in range(round(3 * plain.STUCK_S / 0.5)):
        stage.topic._follow()
        stage.clock.advance(0.5)
    assert [later - one for one, later in pairwise(looks)] == [plain.STUCK_S] * 2
    assert {later - one for one, later in pairwise(asked)} == {plain.ENDS_EVERY_S}


# A sleep --------------------------------------------------------------------------------------------------------------


def test_who_slept_hands_out_nothing_before_a_look_nor_when_another_has_the_partition(stage: Stage) -> None:
    stage.own(0)
    stage.turn()
    fetched = stage.fetch()
    stage.kafka.append("t", 0, 2900)
    stage.clock.advance(24)
    stage.offsets.commit("t", {0: Committed(2910, Token(3, 1), "b", "c", "id-1")})
    stage.process(*fetched)
    stage.topic._follow()
    stage.process(*stage.client.consume(0, 0.0))
    assert stage.read(0) == list(range(10))
    stage.turns(3, 1.0)
    assert stage.read(0) == list(range(10))
    assert stage.committed(0) == 2910
    assert stage.reported("was taken by b")


# What Kafka refuses -----------------------------------------------------------------------------------------------------


def test_a_position_that_retention_has_overtaken_stops_its_partition_and_no_other(stage: Stage) -> None:
    stage.own(0, 1)
    stage.turn()
    for partition in range(2):
        stage.kafka.append("t", partition, 10)
    stage.kafka.expire("t", 0, 15)
    stage.turns(5, 0.5)
    assert stage.reported("partition 0: offsets 10 to 14 are gone, the log begins at 15: stopped; reset its offsets")
    assert not stage.reported("cannot be read"), "it is said once"
    assert not stage.reported("failOnDataLoss"), "no option of a plain consumer"
    assert stage.runner.status().running.keys() == {1}
    assert stage.read(1) == list(range(20))
    assert stage.read(0) == list(range(10))


def test_a_position_behind_the_end_stops_its_partition_once_that_is_sure(stage: Stage) -> None:
    stage.offsets.commit("t", {0: Committed(50, None)})
    stage.own(0, 1)
    stage.turn()
    assert stage.reported("partition 0 cannot be read")
    assert stage.runner.status().running.keys() == {0, 1}
    stage.turns(round(TIMING.ahead_s) + 3, 1.0)
    assert stage.reported("partition 0: its position 50 is behind the log's end 10")
    assert stage.runner.status().running.keys() == {1}
    assert stage.read(1) == list(range(10))


def test_what_kafka_refuses_for_a_while_is_asked_for_again_now_and_then(stage: Stage) -> None:
    stage.own(0, 1)
    stage.turn()
    stage.kafka.append("t", 0, 1)
    stage.topic._drop([0])
    stage.client.deleted.add(0)
    stage.turn(0.1)
    assert stage.reported("partition 0 cannot be read")
    assert stage.client.positions.keys() == {1}
    stage.client.deleted.clear()
    stage.turn(plain.AGAIN_S)
    assert stage.read(0) == list(range(10)), "not at once"
    stage.turn()
    assert stage.read(0) == list(range(11))
    assert not stage.reported("cannot be read")


def test_records_behind_damaged_ones_are_not_taken_for_the_next(stage: Stage) -> None:
    stage.own(0)
    *records, end = stage.fetch()
    stage.process(*records[:4], failed(KafkaError._BAD_MSG, 0, 4), *records[7:], end)
    stage.tick(0.1)
    assert (stage.read(0), stage.committed(0)) == (list(range(4)), 4)
    assert stage.reported("partition 0 cannot be read")
    stage.clock.advance(plain.AGAIN_S)
    stage.turn()
    assert stage.read(0) == list(range(10))


# Other deliveries -------------------------------------------------------------------------------------------------------


def test_a_batch_whose_commit_is_not_known_is_not_delivered_at_most_once(make: Make) -> None:
    rows: list[object] = []
    stage = make(plain.Output(lambda _, records: rows.extend(records), Delivery.AT_MOST_ONCE))
    stage.own(0)
    stage.turn()  # the worker has ended: no commit
    assert stage.runner.ownership.status().last_batch["offsets"] == 10
    assert rows == []


class Store:
    """A transactional store with one refused partition."""

    def __init__(self) -> None:
        self.steps: dict[int, SinkStep] = {}
        self.offsets: list[int] = []
        self.refuses: dict[int, SinkEntry] = {}

    def claim(
        self, _writer: Writer, tokens: Mapping[int, Token], _forget: Mapping[int, int]
    ) -> Mapping[int, SinkEntry]:
        return {p: SinkEntry(token, "a", 3) for p, token in tokens.items()}

    def write(self, _writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> Mapping[int, SinkEntry]:
        self.steps |= steps
        self.offsets += rows["offset"].to_pylist()
        return self.refuses


def test_a_transactional_store_is_given_the_rows_with_the_positions_and_what_it_refuses_is_stopped(make: Make) -> None:
    store = Store()
    stage = make(plain.Output(None, Delivery.EXACTLY_ONCE, store))
    stage.runner.edit(
        lambda ownership: ownership.grants.on_node(replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}))
    )
    for _ in range(4):
        while (work := stage.runner.ownership.requests.work()) is not None:
            stage.runner.ownership.requests.answer(perform(stage.offsets, "t", work, store))
        stage.topic._follow()
    stage.process(*stage.client.consume(0, 0.0))
    assert store.steps == {0: SinkStep(Token(2, 1), 3, 10)}
    assert store.offsets == list(range(3, 10))
    stage.kafka.append("t", 0, 1)
    store.refuses = {0: SinkEntry(Token(9, 1), "b", 10)}
    stage.process(*stage.client.consume(0, 0.0))
    assert stage.runner.status().running == {}
    assert stage.reported("stands in the sink under b")
