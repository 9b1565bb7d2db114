"""What a topic's runner does with its lock and threads, where the tests by subject do not look. Found by changing every
comparison and condition (`tests.simulation.guards`)."""

import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Release, Token
from spark_apps.agent.interface.sampling import SampledStatus
from spark_apps.agent.ownership.releasing import Releasing
from spark_apps.agent.settings import Terms
from spark_apps.agent.threads import runner as module
from spark_apps.delivery import Delivery, SinkEntry
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks
from spark_apps.records.batches import BatchOffset, Range
from tests.fakes.kafka import FakeGroupOffsets
from tests.unit.coordinator_tasks.service.test_record_sizes import running, status
from tests.unit.spark_apps.agent.threads.test_runner import NODE, STILL, Connected, Stage, comes, connected

__all__ = ["connected"]

OWNED = replace(STILL, epoch=2, assignments={0: "a"}, since={0: 2})


class Heard(ConsumerRebalanceListener, ConsumerInterceptor):
    """Told of partitions and of commits."""

    def __init__(self) -> None:
        self.assigned: list[Mapping[int, int]] = []
        self.commits: list[object] = []

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.assigned.append(offsets)

    def on_commit(self, topic: str, offsets: object) -> None:
        self.commits.append(offsets)


@pytest.fixture
def stage() -> Stage:
    return Stage()


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
    node = replace(NODE, epoch=2, assignments={0: "a"}, since={0: 2}, incarnations={"a": 1})
    connected.runner.edit(lambda ownership: ownership.grants.on_node(node))
    assert comes(lambda: last.commits == [{0: 0}])
    assert last.assigned == [{0: 0}]
    assert (first.assigned, first.commits) == ([], [])


def test_a_failed_commit_among_successful_commits_reaches_no_interceptor(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, fails = FakeGroupOffsets.commit, [{0: "no coordinator"}]

    def commit(self: FakeGroupOffsets, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        return fails.pop() if fails else right(self, topic, offsets)

    monkeypatch.setattr(FakeGroupOffsets, "commit", commit)
    heard = Heard()
    connected.runner.agree(Delivery.AT_LEAST_ONCE, hooks=Hooks(heard, (heard,)))
    connected.runner.edit(lambda ownership: ownership.grants.on_node(OWNED))
    assert comes(lambda: bool(connected.kafka.stored))
    assert comes(lambda: heard.commits == [{0: 0}])


def test_a_batch_that_waits_for_its_commit_is_not_delivered_by_a_runner_that_is_closed(stage: Stage) -> None:
    stage.runner.agree(Delivery.AT_MOST_ONCE)
    stage.see(OWNED)
    stage.runner.ownership.batches.hand_out(1, (Range(0, 0, 10, 2),))
    assert stage.runner.confirmed() == {0}
    assert stage.runner.ownership.batches.outstanding == (1, (Range(0, 0, 10, 2),))


def test_what_somebody_has_taken_is_withdrawn_from_the_batch_that_waits(stage: Stage) -> None:
    stage.runner.agree(Delivery.AT_MOST_ONCE)
    stage.see(OWNED)
    stage.runner.ownership.batches.hand_out(1, (Range(0, 0, 10, 2),))
    stage.runner.ownership.grants.refused(0, SinkEntry(Token(9, 1, "g1"), "b", 0))
    assert stage.runner.confirmed() == {0}
    assert stage.runner.ownership.batches.outstanding == (1, ())


def test_the_worker_asks_for_nothing_when_nothing_is_due(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SLEEP_S", 0.001)
    asked: list[object] = []
    monkeypatch.setattr(module, "perform", lambda *request: asked.append(request))
    stage.runner._work()
    assert asked == []


def test_a_reader_that_asks_looks_at_what_is_owned_under_the_lock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[bool] = []

    def posted(_: Releasing) -> Mapping[int, Release]:
        locked.append(stage.runner._turn._is_owned())  # type: ignore[attr-defined]
        return {}

    monkeypatch.setattr(Releasing, "posted", property(posted))
    stage.runner.latest("r", BatchOffset("t"))
    assert locked == [True, True]


def test_a_query_is_over_when_it_was_to_read_what_is_there_and_has(stage: Stage) -> None:
    stage.see(OWNED)
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
