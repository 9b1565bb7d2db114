"""Answers of a broker with a group coordinator that is not ready yet: a real broker gives none at will."""

import gc
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo

from coordinator_tasks.adapters import broker, kafka
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_rights import KafkaRights
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.core.errors import BadSettings, CoordinatorError, KafkaUnavailable, Refused
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.protocol.kafka_rights import Resource, Right

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}


def partition(number: int, *racks: str | None) -> Any:
    return SimpleNamespace(id=number, replicas=[SimpleNamespace(rack=rack) for rack in racks])


def answered(result: object) -> "Future[Any]":
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def test_the_racks_of_a_partition_are_those_of_its_replicas_the_preferred_leaders_first() -> None:
    assert kafka._racks([partition(0, "b", "a", "b"), partition(1, None), partition(2)]) == {0: ("b", "a")}


def test_the_clients_of_a_broker_end_with_it_and_wait_for_no_garbage_collection() -> None:
    before = threads()
    gc.disable()
    try:
        for _ in range(3):
            made = ConfluentKafkaAdmin(KAFKA, 0.1)
            made._broker._reader("g", stable=False)
        del made
        assert threads() <= before
    finally:
        gc.enable()


def threads() -> int:
    """Threads of this process, the library's included."""
    return len(list(Path("/proc/self/task").iterdir()))


class Reader:
    """Fails with these codes, then answers without a commit."""

    def __init__(self, codes: list[int]) -> None:
        self.codes = codes

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return places

    def poll(self, timeout: float) -> None:
        pass


def admin(monkeypatch: pytest.MonkeyPatch, codes: list[int], limit_s: float) -> ConfluentKafkaAdmin:
    made = ConfluentKafkaAdmin(KAFKA, limit_s)
    monkeypatch.setattr(made._broker, "_reader", lambda *_: Reader(codes))
    monkeypatch.setattr(broker, "LOOK_S", 0.001)
    return made


def test_a_coordinator_that_loads_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]
    assert admin(monkeypatch, codes, limit_s=30.0).committed({"g": {"t": [0]}}) == {"g": {}}


def test_the_waiting_ends_at_the_limit_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 100_000
    answer = admin(monkeypatch, codes, limit_s=0.05).committed({"g": {"t": [0]}})["g"]
    assert isinstance(answer, KafkaUnavailable)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(answer)


def test_a_trouble_that_the_library_tells_once_is_named_until_an_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = admin(monkeypatch, [], limit_s=0.05)
    made._broker._trouble(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    made._broker._troubles.clear()  # as at the next request
    assert "Connection refused" in str(made._broker.unavailable("no answer"))
    made.committed({"g": {"t": [0]}})
    assert "Connection refused" not in str(made._broker.unavailable("no answer"))


def test_an_answer_without_an_offset_is_no_offset_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, coordinator = ConfluentGroupOffsets(KAFKA, "g"), ConfluentKafkaAdmin(KAFKA)
    answers: dict[TopicPartition, Any] = {
        TopicPartition("t", p): ListOffsetsResultInfo(at, -1, -1) for p, at in ((0, 7), (1, OFFSET_INVALID))
    }
    for one in (offsets, coordinator):
        monkeypatch.setattr(one._broker, "results", lambda _, one=one: broker._Results(answers, one._broker))
    assert offsets.ends("t", [0, 1]) == {0: 7}
    assert offsets.beginnings("t", [0, 1]) == {0: 7}
    assert coordinator.bounds("t", [0, 1]) == {0: (7, 7)}
    with pytest.raises(KafkaUnavailable, match="partition t-1: no broker says its offset"):
        offsets.at_times("t", {0: 1, 1: 1})
    answers[TopicPartition("t", 1)] = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    assert coordinator.bounds("t", [0, 1]) == {0: (7, 7)}


def test_that_all_brokers_are_down_does_not_hide_why(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = admin(monkeypatch, [], limit_s=0.05)._broker
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    broker._trouble(down)
    assert "1/1 brokers are down" in str(broker.unavailable("no answer"))
    broker._troubles.clear()
    broker._trouble(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    broker._troubles.clear()  # as at the next request
    broker._trouble(down)
    assert "no answer (Connection refused)" in str(broker.unavailable("no answer"))


def test_a_group_that_we_may_not_ask_for_is_named_and_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = admin(monkeypatch, [], limit_s=0.05)
    no_answer = [KafkaError._TIMED_OUT]
    monkeypatch.setattr(made._broker, "_reader", lambda *_: Reader(no_answer * 10))
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "Group authorization failed")
    made._broker._reader_trouble("g", denied)
    answers = made.committed({"g": {"t": [0]}, "other": {"t": [0]}})
    assert isinstance(answers["g"], Refused)
    assert "does not let this user ask for group 'g': Group authorization failed; grant it" in str(answers["g"])
    assert isinstance(answers["other"], KafkaUnavailable)
    monkeypatch.setattr(made._broker, "_reader", lambda *_: Reader([]))
    assert made.committed({"g": {"t": [0]}}) == {"g": {}}
    monkeypatch.setattr(made._broker, "_reader", lambda *_: Reader(no_answer * 10))
    assert isinstance(made.committed({"g": {"t": [0]}})["g"], KafkaUnavailable), "the right was granted since"


def test_settings_that_only_a_consumer_refuses_are_refused_by_us() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "session.timeout.ms": "600000"}
    answer = ConfluentKafkaAdmin(settings, limit_s=0.05).committed({"g": {"t": [0]}})["g"]
    assert isinstance(answer, BadSettings)
    assert "the Kafka settings are not usable" in str(answer)
    assert "session.timeout.ms" in str(answer)


@pytest.mark.parametrize("more", [{"acks": "1"}, {"message.timeout.ms": "300000"}])
def test_settings_that_a_producer_refuses_are_refused(monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", **more}
    offsets, rights = TransactionalGroupOffsets(settings, "g", "c", limit_s=0.05), KafkaRights(settings, limit_s=0.05)
    monkeypatch.setattr(offsets._broker, "_reader", lambda *_: Reader([]))
    transactions = Right(Resource.TRANSACTIONAL_ID, "Write")
    for ask in (
        lambda: offsets.hold("t", "id-1", {0: Token(3, 1, "gen")}),
        lambda: rights.has(transactions, "t", "g", "c"),
    ):
        with pytest.raises(BadSettings, match=f"not usable: .*{next(iter(more))}"):
            ask()
    assert offsets._begun == {}


class Meanwhile(dict[int, Token]):
    """The held partitions of a topic; at each look the worker of another topic of the group takes a partition."""

    def __init__(self, offsets: TransactionalGroupOffsets, taken: tuple[Token, Producer]) -> None:
        super().__init__()
        self._offsets, self._taken = offsets, taken

    def get(self, partition: int, *_: object) -> None:  # type: ignore[override]
        self._offsets._producers["u", partition] = self._taken


def test_the_topics_of_a_group_take_and_give_up_partitions_at_the_same_time() -> None:
    offsets = TransactionalGroupOffsets({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, "g", "c")
    taken = (Token(3, 1, "gen"), offsets._producer("t", 1))
    offsets._producers.update({("t", 1): taken, ("t", 2): taken})
    offsets.hold("t", "id-1", Meanwhile(offsets, taken))
    assert offsets._producers.keys() == {("u", 1), ("u", 2)}


class Producing:
    """A producer that refuses transactions before the initialization, as the library's producer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.trouble: KafkaError | None = None

    def init_transactions(self, limit_s: float) -> None:
        if self.trouble is not None:
            time.sleep(limit_s)
            raise KafkaException(self.trouble)
        self.asked.append("initialize")

    def begin_transaction(self) -> None:
        if not self.asked:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.asked.append("begin")

    def send_offsets_to_transaction(self, places: list[Any], _group: object, _limit_s: float) -> None:
        if self.trouble is not None:
            raise KafkaException(self.trouble)
        self.asked.append(f"send {places[0].offset}")

    def commit_transaction(self, _limit_s: float) -> None:
        self.asked.append("commit")

    def abort_transaction(self, _limit_s: float) -> None:
        self.asked.append("abort")

    def poll(self, _timeout_s: float) -> None:
        pass


@pytest.fixture
def producing(monkeypatch: pytest.MonkeyPatch) -> tuple[TransactionalGroupOffsets, Producing]:
    """Group `g` without commits, and the producer of every partition."""
    offsets, producer = TransactionalGroupOffsets(KAFKA, "g", "c"), Producing()
    monkeypatch.setattr(offsets._broker, "_reader", lambda *_: Reader([]))
    monkeypatch.setattr(offsets._broker, "group_metadata", lambda _: None)
    monkeypatch.setattr(offsets, "_producer", lambda *_: producer)
    return offsets, producer


class Client:
    """Answers requests to a coordinator, or never."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.asked = 0

    def poll(self, timeout: float) -> None:
        pass

    def describe_consumer_groups(self, groups: list[str], **_: float) -> dict[str, Future[Any]]:
        return {group: self._answer(SimpleNamespace(members=[])) for group in groups}

    def alter_consumer_group_offsets(self, requests: list[Any], **_: float) -> dict[str, Future[Any]]:
        return {requests[0].group_id: self._answer(requests[0])}

    def _answer(self, result: object) -> "Future[Any]":
        self.asked += 1
        return answered(result) if self.answers else Future()


def test_reads_are_asked_again_by_another_client_without_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_LOST_S", 0.05)
    lost, good = Client(answers=False), Client(answers=True)
    made = ConfluentKafkaAdmin(KAFKA, limit_s=20.0)
    monkeypatch.setattr(made._broker, "_client", lost)
    monkeypatch.setattr(made._broker, "_new_client", lambda: good)
    assert made.group_members("g") == ()
    assert (lost.asked, good.asked) == (1, 1)


def test_a_commit_without_an_answer_is_not_repeated_and_the_client_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, good = Client(answers=False), Client(answers=True)
    made = ConfluentGroupOffsets(KAFKA, "g", limit_s=0.05)
    monkeypatch.setattr(made._broker, "_client", lost)
    monkeypatch.setattr(made._broker, "_new_client", lambda: good)
    with pytest.raises(KafkaUnavailable, match="no answer"):
        made.commit("t", {0: Committed(5)})
    assert (lost.asked, good.asked) == (1, 0)
    made.commit("t", {0: Committed(5)})
    assert (lost.asked, good.asked) == (1, 1)


@pytest.mark.parametrize(
    ("code", "another"),
    [
        pytest.param(KafkaError._TIMED_OUT, True, id="timed out"),
        pytest.param(KafkaError.UNKNOWN_TOPIC_OR_PART, False, id="an answer"),
    ],
)
def test_a_client_without_an_answer_is_left_alone(monkeypatch: pytest.MonkeyPatch, code: int, another: bool) -> None:
    lost, good = Client(answers=False), Client(answers=True)
    made = broker.Broker(KAFKA, limit_s=5.0)
    monkeypatch.setattr(made, "_client", lost)
    monkeypatch.setattr(made, "_new_client", lambda: good)
    asked: list[object] = []

    def send(client: Any, _: float) -> dict[str, Future[Any]]:
        asked.append(client)
        return {"t": answered(KafkaException(KafkaError(code)))}

    for _ in range(2):
        with pytest.raises(KafkaUnavailable):
            made.results(send).only("topic 't'")
    assert asked == [lost, good if another else lost]


def test_one_partition_whose_producer_does_not_start_is_named_and_all_others_are_held(
    producing: tuple[TransactionalGroupOffsets, Producing], monkeypatch: pytest.MonkeyPatch
) -> None:
    (offsets, producer), bad = producing, Producing()
    bad.trouble = KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True)
    monkeypatch.setattr(offsets, "_producer", lambda _, partition: bad if partition == 1 else producer)
    tokens = dict.fromkeys((0, 1), Token(3, 1, "gen"))
    began = time.monotonic()
    assert offsets.hold("t", "id-1", tokens).keys() == {1}
    assert time.monotonic() - began < 1.0, "the others do not wait for it"
    assert producer.asked == ["initialize"]
    assert "has not begun transactions of t-1 yet (not yet)" in offsets.hold("t", "id-1", tokens)[1]
    bad.trouble = None
    assert offsets.hold("t", "id-1", tokens) == {}


def test_a_failed_commit_of_one_partition_is_named_and_all_other_partitions_are_committed(
    producing: tuple[TransactionalGroupOffsets, Producing], monkeypatch: pytest.MonkeyPatch
) -> None:
    (offsets, producer), bad = producing, Producing()
    monkeypatch.setattr(offsets, "_producer", lambda _, partition: bad if partition == 1 else producer)
    entry = Committed(5, Token(3, 1, "gen"), "a", "c", "id-1")
    offsets.hold("t", "id-1", dict.fromkeys((0, 1), Token(3, 1, "gen")))
    bad.trouble = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "no coordinator")
    assert offsets.commit("t", {1: entry, 0: entry}).keys() == {1}
    assert producer.asked == ["initialize", "begin", "send 5", "commit"]
    assert offsets.commit("t", {1: entry, 0: entry}).keys() == {1}, "its producer does not start again"
    bad.trouble = None
    assert offsets.commit("t", {1: entry}) == {}


class Topics:
    """Describes topics by stored answers."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers

    def poll(self, timeout: float) -> None:
        pass

    def describe_topics(self, topics: Any, **_: float) -> dict[str, Future[Any]]:
        return {name: answered(self.answers[name]) for name in topics.topic_names}


def test_a_topic_that_kafka_does_not_describe_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ConfluentKafkaAdmin(KAFKA, limit_s=5.0)
    known = SimpleNamespace(topic_id="id", partitions=[partition(0)])
    codes = {"denied": KafkaError.TOPIC_AUTHORIZATION_FAILED, "none": KafkaError.UNKNOWN_TOPIC_OR_PART}
    failed = {name: KafkaException(KafkaError(code)) for name, code in {**codes, "odd": KafkaError.UNKNOWN}.items()}
    monkeypatch.setattr(made._broker, "_client", Topics(known=known, **failed))
    problems: dict[str, CoordinatorError] = {}
    found = made.describe(["denied", "known", "none", "odd"], problems)
    assert (found["known"] and found["known"].partition_count, found["none"], found.keys()) == (
        1,
        None,
        {"known", "none"},
    )
    assert isinstance(problems["denied"], Refused)
    assert isinstance(problems["odd"], KafkaUnavailable)
    with pytest.raises(Refused, match="does not let this user ask for topic 'denied'"):
        made.describe(["denied"], {})


class Place:
    """A group's commit in a partition, or the partition's error."""

    def __init__(self, topic: str, partition: int, offset: int, error: int | None = None) -> None:
        self.topic, self.partition, self.offset, self.metadata = topic, partition, offset, ""
        self.error = None if error is None else KafkaError(error)


def test_a_topic_without_known_offsets_hides_no_other_of_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [Place("t", 0, 5), Place("u", 0, 7), Place("u", 1, -1001, KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    made, group = (
        ConfluentKafkaAdmin(KAFKA),
        ConfluentGroupOffsets(KAFKA, "g"),
    )
    for one in (made, group):
        monkeypatch.setattr(one._broker, "committed", lambda *_: places)
    answer = made.committed({"g": {"t": [0], "u": [0, 1]}})["g"]
    assert isinstance(answer, dict)
    assert answer["t"] == {0: Committed(5)}
    assert "does not let this user ask for partition u-1 of group 'g'" in str(answer["u"])
    with pytest.raises(Refused, match="u-1"):
        group.committed("u", [0, 1])


class Slow(Client):
    """Answers the second look, after these troubles."""

    def __init__(self, tell: Callable[[KafkaError], None], *troubles: KafkaError) -> None:
        super().__init__(answers=False)
        self._tell, self._troubles = tell, troubles
        self.future: Future[Any] = Future()
        self.looks = 0

    def poll(self, timeout: float) -> None:
        self.looks += 1
        if self.looks == 2:
            for one in self._troubles:
                self._tell(one)
        elif self.looks == 3:
            self.future.set_result("an answer")


WRONG_CERTIFICATE = KafkaError(KafkaError._SSL, "certificate verify failed")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down")


@pytest.mark.parametrize("troubles", [(WRONG_CERTIFICATE, ALL_DOWN), (ALL_DOWN, WRONG_CERTIFICATE)])
def test_a_wrong_certificate_hides_no_other(monkeypatch: pytest.MonkeyPatch, troubles: tuple[KafkaError, ...]) -> None:
    monkeypatch.setattr(broker, "LOOK_S", 0.001)
    made = broker.Broker(KAFKA, limit_s=5.0)

    def asked(*troubles: KafkaError) -> object:
        client = Slow(made._trouble, *troubles)
        monkeypatch.setattr(made, "_client", client)
        return made.results(lambda *_: {"": client.future}).only("the cluster")

    assert asked(WRONG_CERTIFICATE) == "an answer"
    for refused in (troubles, (WRONG_CERTIFICATE,)):  # the library does not repeat the event of all brokers down
        with pytest.raises(KafkaUnavailable, match=r"refuses the log-in .*certificate verify failed"):
            asked(*refused)


def test_a_silent_broker_hides_not_how_long_the_others_keep_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    rights = KafkaRights(KAFKA)
    nodes = [SimpleNamespace(id=n, host=host, port=9092) for n, host in ((1, "h"), (2, "down"), (3, "h"))]
    cluster = broker._Results({"": SimpleNamespace(nodes=nodes)}, rights._broker)
    monkeypatch.setattr(rights._broker, "results", lambda _: cluster)
    minutes = {"1": "60", "3": "30"}

    def configuration(one: Any) -> dict[str, SimpleNamespace]:
        if one.name not in minutes:
            raise KafkaUnavailable("no answer")
        return {"offsets.retention.minutes": SimpleNamespace(value=minutes[one.name])}

    monkeypatch.setattr(rights, "_configuration", configuration)
    problems: dict[str, CoordinatorError] = {}
    assert rights.offsets_kept_s(problems) == 1800.0
    assert {who: str(error) for who, error in problems.items()} == {"down:9092": "no answer"}
