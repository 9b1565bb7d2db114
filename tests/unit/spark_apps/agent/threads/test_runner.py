"""A topic's runner: calls of the reader, requests to Kafka, its lock, and wake-ups of the agent by a release."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import cast

import pytest

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Committed, Handoff, Release, Token, TopicNode
from coordinator_tasks.core.ports import GroupOffsets
from spark_apps.agent.interface.sampling import SampledStatus
from spark_apps.agent.ownership.releasing import Releasing
from spark_apps.agent.settings import Identity, Terms
from spark_apps.agent.threads import runner as module
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery, SinkEntry, TransactionalSink
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks
from spark_apps.records.batches import BatchOffset, Range
from spark_apps.records.options import parse_options
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeGroupOffsets, FakeKafka, perform_due
from tests.unit.coordinator_tasks.service.test_record_sizes import running, status

PROPERTIES = {"isolation.level": "read_committed", "fetch.wait.max.ms": "7"}
NODE = TopicNode("rogue:9092", "g", 1, "g1", "id-1", initial_partitions=1, properties=PROPERTIES)
OWNED = replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})


class Connected:
    """A runner of topic `t`, and the isolation levels of its connections."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        self.levels: list[str | None] = []
        self.meanwhile: Callable[[], object] = bool
        self.runner = TopicRunner("t", NODE, Identity("a", "c", 1), SystemClock(), self.connect, bool, brokers="k:9092")

    def connect(self, node: TopicNode) -> GroupOffsets:
        self.levels.append(node.properties.get("isolation.level"))
        self.meanwhile()
        return self.kafka.offsets(node.group_id)

    def connected(self, levels: list[str]) -> bool:
        return comes(lambda: self.levels == levels)


def comes(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def owned(runner: TopicRunner, node: TopicNode) -> bool:
    """Accept this node, with partition 0 owned since this epoch, and become ready."""
    mine = replace(node, assignments={0: "a"}, since={0: node.epoch}, incarnations={"a": 1})
    runner.edit(lambda ownership: ownership.grants.on_node(mine))
    return comes(lambda: 0 in runner.see(lambda ownership: ownership.holdings.ready()))


@pytest.fixture
def connected() -> Iterator[Connected]:
    one = Connected()
    yield one
    one.runner.close()


def test_the_reader_gets_the_topics_properties_and_group_and_the_consumers_own_brokers(connected: Connected) -> None:
    given = connected.runner.attach("r", parse_options({"subscribe": "t"}))
    assert given.kafka == {
        "bootstrap.servers": "k:9092",
        "group.id": "g",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "7",
    }
    assert connected.connected(["read_committed"])


@pytest.mark.parametrize(
    ("delivery", "option", "stops"),
    [
        (Delivery.AT_LEAST_ONCE, "false", False),
        (Delivery.EXACTLY_ONCE, "false", True),
        (Delivery.AT_LEAST_ONCE, "true", True),
    ],
)
def test_an_executor_leaves_out_lost_records_only_if_the_delivery_allows_it(
    connected: Connected, delivery: Delivery, option: str, stops: bool
) -> None:
    connected.runner.agree(delivery)
    given = connected.runner.attach("r", parse_options({"subscribe": "t", "failOnDataLoss": option}))
    assert given.fail_on_data_loss is stops


def test_the_ends_are_those_that_the_reader_reaches_by_its_own_option(connected: Connected) -> None:
    assert connected.connected(["read_committed"])
    connected.runner.attach("r", parse_options({"subscribe": "t", "kafka.isolation.level": "read_uncommitted"}))
    assert connected.connected(["read_committed", "read_uncommitted"])
    connected.runner.attach("r2", parse_options({"subscribe": "t", "kafka.isolation.level": "read_uncommitted"}))
    assert connected.connected(["read_committed", "read_uncommitted"]), "the same again changes nothing"


def test_a_reader_that_comes_while_the_clients_are_made_has_the_last_word_on_the_ends(connected: Connected) -> None:
    assert connected.connected(["read_committed"])

    def read_by(reader: str, level: str) -> None:
        connected.runner.attach(reader, parse_options({"subscribe": "t", "kafka.isolation.level": level}))

    def meanwhile() -> None:
        if connected.levels[-1] == "read_uncommitted":
            read_by("r2", "read_committed")

    connected.meanwhile = meanwhile
    read_by("r", "read_uncommitted")
    assert connected.connected(["read_committed", "read_uncommitted", "read_committed"])


def test_a_request_that_fails_unexpectedly_is_made_again(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    # No other answer would come: the topic would never check the fence again.
    right = FakeGroupOffsets.committed
    fails = [RuntimeError("a defect")]

    def committed(self: FakeGroupOffsets, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        if fails:
            raise fails.pop()
        return right(self, topic, partitions)

    monkeypatch.setattr(FakeGroupOffsets, "committed", committed)
    runner = connected.runner
    assert owned(runner, OWNED)
    assert not fails


def test_the_clients_have_found_brokers_and_coordinator_before_a_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuses(self: FakeGroupOffsets, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        asked.append(topic)
        raise KafkaUnavailable("no answer")

    right = FakeGroupOffsets.committed
    monkeypatch.setattr(FakeGroupOffsets, "committed", refuses)
    one = Connected()
    assert comes(lambda: asked == ["t"])
    monkeypatch.setattr(FakeGroupOffsets, "committed", right)
    assert owned(one.runner, OWNED), "what it cannot say keeps nobody"
    assert asked == ["t"]
    one.runner.close()


# Releases -----------------------------------------------------------------------------------------------------------

STILL = TopicNode("host:9092", "g", 1, "g1", "id-1", incarnations={"a": 1, "b": 1}, initial_partitions=2)
OWNED_STILL = replace(STILL, epoch=2, assignments={0: "a"}, since={0: 2})


class Stage:
    """A runner with an ended worker: the test does the work, and counts the agent's wake-ups."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 2)
        self.offsets = self.kafka.offsets("g")
        self.woken = 0
        self.runner = TopicRunner(
            "t", STILL, Identity("a", "c", 1), FakeClock(), lambda _: self.offsets, self._wake, brokers="k:9092"
        )
        self.runner.close()

    def _wake(self) -> None:
        self.woken += 1

    def see(self, node: TopicNode) -> None:
        self.runner.edit(lambda ownership: ownership.grants.on_node(node))
        self.runner.edit(lambda ownership: perform_due(ownership, self.offsets))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_release_that_an_answer_of_kafka_posts_wakes_the_agent() -> None:
    kafka, woken = FakeKafka(), threading.Event()
    kafka.create_topic("t", 2)
    offsets = kafka.offsets("g")
    offsets.commit("t", {0: Committed(7, None)})
    runner = TopicRunner(
        "t", STILL, Identity("a", "c", 1), SystemClock(), lambda _: offsets, woken.set, brokers="k:9092"
    )
    runner.edit(lambda ownership: ownership.grants.on_node(replace(STILL, epoch=2, handoff={0: Handoff("a", "b", 2)})))
    assert woken.wait(10), "it does not run here: what is committed has to be read first"
    assert runner.edit(lambda ownership: dict(ownership.releasing.posted))[0].offset == 7
    runner.close()


def test_a_topic_that_was_added_again_with_another_group_is_committed_there(connected: Connected) -> None:
    runner, stored = connected.runner, connected.kafka.stored
    assert owned(runner, NODE)
    runner.edit(lambda ownership: ownership.grants.on_node(replace(NODE, epoch=2, removed=True)))
    assert comes(lambda: not runner.see(lambda ownership: ownership.holdings.held))
    assert owned(runner, replace(NODE, epoch=3, group_id="h"))
    assert {group for group, _, _ in stored} == {"g", "h"}
    assert runner.attach("r", parse_options({"subscribe": "t"})).kafka["group.id"] == "h"


def test_what_was_read_under_the_former_group_is_committed_there_first(connected: Connected) -> None:
    runner, stored = connected.runner, connected.kafka.stored
    connected.kafka.append("t", 0, 100)
    assert owned(runner, NODE)
    runner.edit(lambda ownership: ownership.batches.hand_out(1, (Range(0, 0, 60, 1),)))
    again = replace(NODE, epoch=2, group_id="h", assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})
    runner.edit(lambda ownership: ownership.grants.on_node(again))
    time.sleep(0.1)
    assert stored.keys() == {("g", "t", 0)}, "its batch is under way"
    runner.edit(lambda ownership: ownership.batches.cover(1))
    assert comes(lambda: ("h", "t", 0) in stored)
    assert {group: offset for (group, _, _), (offset, _) in stored.items()} == {"g": 60, "h": 0}


class Closing:
    """A sink with its end alone."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.closed = 0
        self.error = error

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, OSError("gone"), SystemExit(1)])
def test_a_restarted_query_closes_its_former_sink(error: BaseException | None, connected: Connected) -> None:
    """Each start makes the pipeline again, with a new sink and new connections."""
    former, following = Closing(error), Closing()
    for sink in (former, former, following, following):
        connected.runner.agree(Delivery.EXACTLY_ONCE, cast(TransactionalSink, sink))
    assert (former.closed, following.closed) == (1, 0)
    connected.runner.agree(Delivery.EXACTLY_ONCE, cast(TransactionalSink, object()))
    connected.runner.agree(Delivery.AT_LEAST_ONCE)
    assert (former.closed, following.closed) == (1, 1)


class Heard(ConsumerRebalanceListener, ConsumerInterceptor):
    """Told of partitions and of commits."""

    def __init__(self) -> None:
        self.assigned: list[Mapping[int, int]] = []
        self.commits: list[object] = []

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.assigned.append(offsets)

    def on_commit(self, topic: str, offsets: object) -> None:
        self.commits.append(offsets)


@pytest.mark.parametrize(
    ("delivery", "terms"),
    [
        (Delivery.AT_LEAST_ONCE, Terms()),
        (Delivery.AT_MOST_ONCE, Terms(commit_first=True)),
        (Delivery.EXACTLY_ONCE, Terms(claims=True)),
    ],
)
@pytest.mark.parametrize("listener", [None, ConsumerRebalanceListener()], ids=["nobody listens", "a listener"])
def test_what_is_agreed_on_reaches_the_holder(
    stage: Stage, delivery: Delivery, terms: Terms, listener: ConsumerRebalanceListener | None
) -> None:
    stage.runner.agree(delivery, hooks=Hooks(listener))
    assert stage.runner.ownership.holdings.terms == replace(terms, listening=listener is not None)
    assert (stage.runner._callbacks is not None) is (listener is not None)
    stage.runner.close()


def test_who_was_agreed_on_last_is_told_of_partitions_and_of_commits(connected: Connected) -> None:
    first, last = Heard(), Heard()
    for one in (first, last):
        connected.runner.agree(Delivery.AT_LEAST_ONCE, hooks=Hooks(one, (one,)))
    assert owned(connected.runner, OWNED)
    assert comes(lambda: last.commits == [{0: 0}])
    assert last.assigned == [{0: 0}]
    assert (first.assigned, first.commits) == ([], [])


def test_a_failed_commit_reaches_no_interceptor(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    right, fails = FakeGroupOffsets.commit, [{0: "no coordinator"}]

    def commit(self: FakeGroupOffsets, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        return fails.pop() if fails else right(self, topic, offsets)

    monkeypatch.setattr(FakeGroupOffsets, "commit", commit)
    heard = Heard()
    connected.runner.agree(Delivery.AT_LEAST_ONCE, hooks=Hooks(heard, (heard,)))
    assert owned(connected.runner, OWNED)
    assert comes(lambda: heard.commits == [{0: 0}])


@pytest.mark.parametrize("taken", [False, True], ids=["the runner is closed", "somebody has taken the partition"])
def test_a_batch_that_waits_for_its_commit_is_not_delivered(stage: Stage, taken: bool) -> None:
    stage.runner.agree(Delivery.AT_MOST_ONCE)
    stage.see(OWNED_STILL)
    stage.runner.ownership.batches.hand_out(1, (Range(0, 0, 10, 2),))
    if taken:
        stage.runner.ownership.grants.refused(0, SinkEntry(Token(9, 1, "g1"), "b", 0))
    assert stage.runner.confirmed() == {0}
    assert stage.runner.ownership.batches.outstanding == (1, () if taken else (Range(0, 0, 10, 2),))


def test_the_worker_asks_for_nothing_when_nothing_is_due(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP_S", 0.001)
    asked: list[object] = []
    monkeypatch.setattr(module, "perform", lambda *request: asked.append(request))
    stage.runner._work()
    assert asked == []


def test_a_reader_looks_at_what_is_owned_under_the_lock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[bool] = []

    def posted(_: Releasing) -> Mapping[int, Release]:
        locked.append(stage.runner._turn._is_owned())  # type: ignore[attr-defined]
        return {}

    monkeypatch.setattr(Releasing, "posted", property(posted))
    stage.runner.latest("r", BatchOffset("t"))
    assert locked == [True, True]


def test_a_query_is_over_when_it_was_to_read_what_is_there_and_has(stage: Stage) -> None:
    stage.see(OWNED_STILL)
    assert stage.runner.ownership.batches.caught_up
    assert not stage.runner.over
    assert stage.runner.is_over("r"), "a closed runner has nothing more for anybody"
    stage.runner.until_now("r")
    assert stage.runner.over
    stage.runner.ownership.grants.on_isolated(isolated=True)
    assert not stage.runner.over


def test_samples_are_taken_until_the_block_ends() -> None:
    taken = threading.Event()

    class Broker:
        def mean_bytes(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
            taken.set()
            return {}

    with SampledStatus(lambda: status(p0=running()), Broker()).sampling(0.001):
        assert taken.wait(20)
