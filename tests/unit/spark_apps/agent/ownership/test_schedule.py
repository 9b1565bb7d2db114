"""Which request to Kafka is due, and when the next one is."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Handoff, StartRule, Token, TopicDescription
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.work import Commit, Failed, ListBounds, ListOffsets, OffsetFetch, perform
from spark_apps.agent.settings import Terms
from spark_apps.records.options import Starting
from tests.fakes.kafka import FakeKafka
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, asked, give, list_offsets, release_of
from tests.unit.spark_apps.agent.ownership.test_deliveries import Play


def test_a_large_topics_id_is_asked_for_seldom_and_at_each_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    describe = stage.offsets.describe

    def counted(topic: str) -> TopicDescription | None:
        asked.append(topic)
        return describe(topic)

    monkeypatch.setattr(type(stage.offsets), "describe", lambda _, topic: counted(topic))
    stage.node = replace(stage.node, initial_partitions=5000)
    stage.own(0)
    assert len(asked) == 1
    stage.wait(4.5)
    assert len(asked) == 1
    stage.own(0, 1)
    assert len(asked) == 2
    stage.wait(6.0)
    assert len(asked) == 3
    stage.kafka.create_topic("t", 4)
    stage.wait(6.0)
    assert stage.running == {}
    assert stage.reported("recreated in Kafka")


def asked_ends(stage: Stage, seconds: float) -> list[tuple[int, ...]]:
    """The partitions of each question for the logs' ends in this time."""
    found = []
    for _ in range(round(seconds / 0.01)):
        stage.clock.advance(0.01)
        stage.ownership.requests.want_ends()
        while (work := stage.ownership.requests.work()) is not None:
            if isinstance(work, ListOffsets):
                found.append(work.partitions)
            stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return found


def test_the_ends_of_many_partitions_are_asked_for_less_often_but_those_of_a_new_one_at_once() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 401)
    stage = Stage(kafka=kafka)
    stage.node = replace(stage.node, initial_partitions=401)
    stage.own(*range(400))
    assert len(asked_ends(stage, 1.95)) == 10  # at once, and every 0.2 s
    stage.node = replace(stage.node, epoch=stage.node.epoch + 1)
    changed = replace(
        stage.node, assignments=dict.fromkeys(range(401), "a"), since={**stage.node.since, 400: stage.node.epoch}
    )
    stage.ownership.grants.on_node(changed)
    assert asked_ends(stage, 0.01) == [(400,)]


def test_the_ends_that_a_batch_waits_for_go_before_a_commit_that_nobody_waits_for_but_only_once(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 10)
    stage.ownership.batches.cover(stage.batch)
    found: list[type] = []
    for _ in range(2):
        stage.clock.advance(
            2 * TIMING.measure_s
        )  # the brokers are slow: the ends are wanted, and may be asked for again
        stage.ownership.requests.want_ends()
        work = stage.ownership.requests.work()
        found.append(type(work))
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    assert found == [ListOffsets, Commit]


def test_a_start_is_committed_at_once_although_something_was_committed_just_now(stage: Stage) -> None:
    stage.own(0)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a", 1: "a"}, since={0: 1, 1: 9}))
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, OffsetFetch)))
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, ListBounds)))
    assert stage.ownership.requests.next_at() <= stage.clock.monotonic()
    assert isinstance(stage.ownership.requests.work(), Commit)


def test_a_partition_without_a_leader_keeps_nothing_else_waiting(stage: Stage) -> None:
    stage.own(0)
    stage.kafka.leaderless.add(1)
    stage.own(0, 1)
    assert stage.reported("partition 1: no broker says where its log begins and ends")
    stage.kafka.append("t", 0, 50)
    assert list_offsets(stage).partitions == (0,)
    stage.kafka.leaderless.add(0)
    list_offsets(stage)
    assert stage.reported("partition 0: no broker says where its log begins and ends")
    stage.kafka.leaderless.discard(0)
    list_offsets(stage)
    assert not stage.reported("partition 0: no broker says")
    assert stage.ownership.holdings.ready()[0].log.offset == 150
    stage.process(0, 120)
    stage.tick(TIMING.commit_s)
    assert stage.committed(0).offset == 120
    stage.kafka.leaderless.clear()
    stage.tick(TIMING.retry_max_s)
    stage.tick(TIMING.measure_s)
    assert stage.ownership.holdings.ready().keys() == {0, 1}
    assert not stage.reported("no broker says")


def test_bounds_that_fail_keep_no_other_partition_from_its_ends(stage: Stage) -> None:
    stage.own(0)
    epoch = stage.node.epoch + 1
    stage.ownership.grants.on_node(
        replace(stage.node, epoch=epoch, assignments={0: "a", 1: "a"}, since={0: 1, 1: epoch})
    )
    asked(stage, ListBounds)
    stage.ownership.requests.answer(Failed("partition t-1: a storage error"))
    stage.clock.advance(TIMING.retry_s)
    assert list_offsets(stage).partitions == (0,)


def test_a_release_without_any_start_keeps_no_other_partition_from_its_ends(stage: Stage) -> None:
    stage.node = replace(stage.node, start=StartRule.NONE)
    stage.commit(1, 10, Token(0, 0, GENERATION))
    stage.own(0, 1)
    give(stage, 0)
    assert stage.ownership.holdings.unknown == (0,)
    assert list_offsets(stage).partitions == (1,)


def test_bounds_that_no_broker_knew_are_asked_for_again_after_a_pause(stage: Stage) -> None:
    stage.kafka.leaderless.add(1)
    stage.own(1)
    asked_at = stage.clock.monotonic()
    assert not isinstance(stage.ownership.requests.work(), ListBounds)
    stage.tick(TIMING.look_s)
    assert stage.ownership.requests.next_at() == asked_at + TIMING.retry_max_s
    stage.clock.advance(asked_at + TIMING.retry_max_s - stage.clock.monotonic())
    assert isinstance(asked(stage, ListBounds), ListBounds)


def test_the_pause_after_a_failure_grows_with_each_one_until_there_is_an_answer(stage: Stage) -> None:
    def pause() -> float:
        stage.ownership.requests.answer(Failed("no broker answers"))
        return stage.ownership.requests.next_at() - stage.clock.monotonic()

    stage.own(0)
    found = []
    for _ in range(6):
        stage.clock.advance(TIMING.look_s + TIMING.retry_max_s)
        asked(stage, OffsetFetch)
        found.append(pause())
    assert found == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    stage.tick(TIMING.look_s + TIMING.retry_max_s)
    stage.clock.advance(TIMING.look_s)
    asked(stage, OffsetFetch)
    assert pause() == pytest.approx(TIMING.retry_s)


def test_the_worker_wakes_for_the_logs_ends_that_nobody_has_asked_for_during_a_long_batch(stage: Stage) -> None:
    stage.own(0)
    list_offsets(stage)
    told_at = stage.clock.monotonic()
    stage.wait(TIMING.ends_s - 0.1)
    assert stage.ownership.requests.next_at() - told_at == pytest.approx(TIMING.ends_s)


def test_a_claim_that_failed_is_made_again_after_its_pause() -> None:
    play = Play(Terms(claims=True))
    play.sink.down = True
    play.own(0)
    assert play.ownership.requests.work() is None
    assert play.ownership.requests.next_at() <= play.clock.monotonic() + TIMING.retry_max_s
    play.sink.down = False
    play.tick(TIMING.retry_max_s)
    assert play.ownership.holdings.ready().keys() == {0}


def awaits(stage: Stage) -> None:
    """Partition 1 is to come by a hand-off, and Kafka has just told the topic's id, for the start of 0."""
    stage.own(0)
    taken = Handoff("b", "a", stage.node.epoch + 1)
    stage.read(assignments={0: "a"}, since={0: stage.node.since[0]}, handoff={1: taken})


def asks_id(stage: Stage) -> bool:
    fetch = asked(stage, OffsetFetch)
    assert 1 in fetch.partitions
    return fetch.asks_id


@pytest.mark.parametrize(("waited_s", "asks"), [(TIMING.id_fresh_s, False), (TIMING.id_fresh_s + 0.01, True)])
def test_a_released_start_asks_for_the_id_only_if_it_is_not_fresh(stage: Stage, waited_s: float, asks: bool) -> None:
    stage.node = replace(stage.node, initial_partitions=10_000)
    awaits(stage)
    stage.clock.advance(waited_s)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 40, Token(0, 6, GENERATION))})
    assert asks_id(stage) is asks


def test_partitions_that_came_later_are_asked_for_no_time(stage: Stage) -> None:
    stage.ownership.open(FirstOffsets(Starting(every_ms=1000)))
    stage.ownership.grants.on_node(
        replace(stage.node, epoch=1, assignments={0: "a", 1: "a"}, since={0: 1, 1: 1}, initial_partitions=1)
    )
    listing = asked(stage, ListBounds)
    assert listing.times_ms == {0: 1000}


def test_the_logs_beginnings_are_asked_for_now_and_then_and_those_of_a_new_partition_at_once(stage: Stage) -> None:
    stage.own(0)
    assert [list_offsets(stage).beginnings for _ in range(3)] == [(0,), (), ()]
    stage.own(0, 1)
    assert list_offsets(stage).beginnings == ()
    stage.tick(TIMING.bounds_s)
    assert [list_offsets(stage).beginnings for _ in range(2)] == [(0, 1), ()]
