"""Rules of the agent at their edges: what the tests by subject do not need to know. Found by changing every comparison
and condition (`tests.simulation.guards`)."""

import logging
from dataclasses import replace
from math import inf

import pytest

from coordinator_tasks.core.model import Handoff, Seek, Token
from coordinator_tasks.core.protocol.fence import Bounds
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import (
    Commit,
    Failed,
    ListBounds,
    ListedBounds,
    ListOffsets,
    OffsetFetch,
    Work,
    perform,
)
from spark_apps.agent.reports import MAX_REPORTS, Reports
from spark_apps.agent.settings import Pacing, Terms
from spark_apps.agent.zookeeper.watches import Watches
from spark_apps.records.batches import BatchOffset
from spark_apps.records.options import Starting, parse_options
from tests.unit.spark_apps.agent.ownership.test_deliveries import Play
from tests.unit.spark_apps.agent.ownership.test_holder import GENERATION, TIMING, Stage, give, release_of

OLD = Token(1, 1, "g1")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def asked(stage: Stage, kind: type[Work]) -> Work:
    """The next request of this kind; what comes before it is answered."""
    for _ in range(10):
        work = stage.ownership.requests.work()
        assert work is not None
        if isinstance(work, kind):
            return work
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    raise AssertionError(f"no {kind.__name__} was due")


# What is asked of Kafka, and when -------------------------------------------------------------------------------------


def test_the_worker_sleeps_until_something_is_due(stage: Stage) -> None:
    now = stage.clock.monotonic()
    assert stage.ownership.requests.next_at() == inf
    stage.own(0)
    assert stage.ownership.requests.next_at() == now + TIMING.look_s
    stage.hand_out(0, 10)
    stage.ownership.batches.cover(stage.batch)
    assert stage.ownership.requests.next_at() <= now + TIMING.commit_s, "what has passed is committed soon"
    stage.tick(0.1)
    stage.ownership.requests.want_ends()
    assert stage.ownership.requests.next_at() <= now + 0.1 + 2 * TIMING.measure_s, "the ends are wanted"
    stage.tick(0.1)
    assert stage.ownership.requests.next_at() == now + TIMING.look_s


def test_a_start_is_committed_at_once_although_something_was_committed_just_now(stage: Stage) -> None:
    stage.own(0)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a", 1: "a"}, since={0: 1, 1: 9}))
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, OffsetFetch)))
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, ListBounds)))
    assert stage.ownership.requests.next_at() <= stage.clock.monotonic()
    assert isinstance(stage.ownership.requests.work(), Commit)


def test_a_guarded_start_is_looked_at_more_often(stage: Stage) -> None:
    stage.own(0, guarded=frozenset({0}))
    assert stage.ownership.requests.next_at() == stage.clock.monotonic() + TIMING.guard_look_s


def test_a_partition_without_a_leader_keeps_nothing_else_waiting(stage: Stage) -> None:
    stage.own(0)
    stage.kafka.leaderless.add(1)
    stage.own(0, 1)
    assert stage.reported("partition 1: no broker says where its log begins and ends")
    stage.kafka.append("t", 0, 50)
    assert list_offsets(stage).partitions == (0,)
    assert stage.ownership.holdings.ready()[0].end == 150
    stage.hand_out(0, 120)
    stage.cover()
    stage.tick(TIMING.commit_s)
    assert stage.committed(0).offset == 120
    stage.kafka.leaderless.clear()
    stage.tick(TIMING.retry_max_s)
    stage.tick(TIMING.measure_s)
    assert stage.ownership.holdings.ready().keys() == {0, 1}
    assert not stage.reported("no broker says")


def test_bounds_that_no_broker_knew_are_asked_for_again_after_a_pause(stage: Stage) -> None:
    stage.kafka.leaderless.add(1)
    stage.own(1)
    asked_at = stage.clock.monotonic()
    assert not isinstance(stage.ownership.requests.work(), ListBounds)
    stage.tick(TIMING.look_s)
    assert stage.ownership.requests.next_at() == asked_at + TIMING.retry_max_s
    stage.clock.advance(asked_at + TIMING.retry_max_s - stage.clock.monotonic())
    assert isinstance(asked(stage, ListBounds), ListBounds)


def test_a_claim_that_failed_is_made_again_after_its_pause() -> None:
    play = Play(Terms(claims=True))
    play.sink.down = True
    play.own(0)
    assert play.ownership.requests.next_at() <= play.clock.monotonic() + TIMING.retry_max_s
    play.sink.down = False
    play.tick(TIMING.retry_max_s)
    assert play.ownership.holdings.ready().keys() == {0}


def test_a_look_names_what_is_held_under_this_topic_id_and_not_fenced(stage: Stage) -> None:
    stage.own(0, 1)
    stage.commit(1, 50, Token(90, 1))
    stage.tick(1.0)
    stage.clock.advance(1.0)
    fetch = asked(stage, OffsetFetch)
    assert isinstance(fetch, OffsetFetch)
    assert fetch.holding.keys() == {0}


def awaits(stage: Stage) -> None:
    """Partition 1 is to come by a hand-off, and Kafka has just told the topic's id, for the start of 0."""
    stage.own(0)
    taken = Handoff("b", "a", stage.node.epoch + 1)
    stage.read(assignments={0: "a"}, since={0: stage.node.since[0]}, handoff={1: taken})


def asks_id(stage: Stage) -> bool:
    fetch = asked(stage, OffsetFetch)
    assert isinstance(fetch, OffsetFetch)
    assert 1 in fetch.partitions
    return fetch.asks_id


@pytest.mark.parametrize(("waited_s", "asks"), [(TIMING.id_fresh_s, False), (TIMING.id_fresh_s + 0.01, True)])
def test_a_released_start_asks_for_the_id_again_only_if_it_was_not_told_lately(
    stage: Stage, waited_s: float, asks: bool
) -> None:
    stage.node = replace(stage.node, initial_partitions=10_000)
    awaits(stage)
    stage.clock.advance(waited_s)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 40, Token(0, 6, GENERATION))})
    assert asks_id(stage) is asks


def test_a_start_without_a_release_asks_for_the_id_although_it_was_told_lately(stage: Stage) -> None:
    stage.node = replace(stage.node, initial_partitions=10_000)
    awaits(stage)
    epoch = stage.node.epoch + 1
    node = replace(stage.node, epoch=epoch, assignments={0: "a", 1: "a"}, since={0: 1, 1: epoch}, handoff={})
    stage.ownership.grants.on_node(node)
    assert asks_id(stage)


def test_partitions_that_came_later_are_asked_for_no_time(stage: Stage) -> None:
    stage.ownership.open(FirstOffsets(Starting(every_ms=1000)))
    stage.ownership.grants.on_node(
        replace(stage.node, epoch=1, assignments={0: "a", 1: "a"}, since={0: 1, 1: 1}, initial_partitions=1)
    )
    listing = asked(stage, ListBounds)
    assert isinstance(listing, ListBounds)
    assert listing.times_ms == {0: 1000}


def list_offsets(stage: Stage) -> ListOffsets:
    stage.clock.advance(TIMING.measure_s)
    stage.ownership.requests.want_ends()
    work = asked(stage, ListOffsets)
    assert isinstance(work, ListOffsets)
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return work


def test_the_logs_beginnings_are_asked_for_now_and_then_and_those_of_a_new_partition_at_once(stage: Stage) -> None:
    stage.own(0)
    assert [list_offsets(stage).beginnings for _ in range(3)] == [(0,), (), ()]
    stage.own(0, 1)
    assert list_offsets(stage).beginnings == ()
    stage.tick(TIMING.bounds_s)
    assert [list_offsets(stage).beginnings for _ in range(2)] == [(0, 1), ()]


def test_what_is_being_stopped_or_was_just_released_is_not_measured_for_its_beginning(stage: Stage) -> None:
    stage.own(0, 1)
    list_offsets(stage)
    stage.hand_out(0, 50)
    give(stage, 0)
    assert list_offsets(stage).partitions == (1,)
    taker = Stage()
    taker.node = replace(taker.node, epoch=4)
    taker.own(0)
    list_offsets(taker)
    taker.read(handoff={1: Handoff("b", "a", taker.node.epoch + 1)})
    taker.ownership.grants.on_releases({1: release_of(taker, 1, 40, Token(1, 6, GENERATION))})
    for kind in (OffsetFetch, Commit):
        taker.ownership.requests.answer(perform(taker.offsets, "t", asked(taker, kind)))
    work = asked(taker, ListOffsets)
    assert isinstance(work, ListOffsets)
    assert (work.partitions, work.beginnings) == ((1,), ())


# What comes back ------------------------------------------------------------------------------------------------------


def test_what_keeps_commits_from_the_group_is_said_until_a_commit_has_passed(stage: Stage) -> None:
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1}))
    asked(stage, Commit)
    stage.ownership.requests.answer(Failed("somebody has subscribed", refused=True))
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, OffsetFetch)))
    assert stage.reported("somebody has subscribed")
    stage.tick()
    assert not stage.reported("somebody has subscribed")


def test_what_keeps_kafka_from_answering_is_said_until_it_answers(stage: Stage) -> None:
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1}))
    asked(stage, Commit)
    stage.ownership.requests.answer(Failed("no broker answers"))
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, OffsetFetch)))
    assert not stage.reported("no broker answers")


def test_a_partition_whose_bounds_kafka_does_not_know_is_asked_for_again(stage: Stage) -> None:
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={0: "a", 1: "a"}, since={0: 1, 1: 1}))
    asked(stage, ListBounds)
    stage.ownership.requests.answer(ListedBounds({0: Bounds(0, 100)}))
    stage.wait(2 * TIMING.retry_max_s)
    assert stage.ownership.holdings.ready().keys() == {0, 1}


def test_who_committed_for_another_topic_id_is_named(stage: Stage) -> None:
    stage.commit(0, 5, OLD, topic_id="id-0", owner="z")
    stage.own(0)
    assert stage.reported("the commit of z for another topic id")


@pytest.mark.parametrize(("owner", "shown"), [("z", "z"), ("", "an unknown client")])
def test_who_has_written_over_an_entry_is_named(stage: Stage, owner: str, shown: str) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.own(0)
    stage.commit(0, 5, OLD, owner=owner)
    stage.tick(1.0)
    assert stage.reported(f"was overwritten by {shown} and")


def test_an_entry_that_is_written_again_says_no_more_than_has_passed_the_sink(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.own(0)
    stage.hand_out(0, 50)
    stage.commit(0, 5, OLD)
    stage.tick(1.0)
    assert (stage.committed(0).offset, stage.committed(0).owner) == (0, "a")


def test_a_survivor_of_another_topic_id_moves_no_guarded_start(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, guarded=frozenset({0}))
    stage.commit(0, 60, OLD, topic_id="id-0")
    stage.wait(2 * TIMING.guard_s)
    assert stage.ownership.holdings.ready()[0].position == 0


def test_a_survivor_that_began_at_the_seek_moves_a_guarded_start(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8, seeks={0: Seek(10, 5)})
    stage.own(0, guarded=frozenset({0}))
    stage.commit(0, 65, Token(5, 6, GENERATION))
    stage.wait(3 * TIMING.guard_s)
    assert stage.ownership.holdings.ready()[0].position == 65


@pytest.mark.parametrize("claims", [False, True])
def test_what_to_do_about_lost_records_is_said_where_it_helps(claims: bool, caplog: pytest.LogCaptureFixture) -> None:
    play = Play(Terms(claims=claims))
    play.commit(0, 10, OLD)
    play.kafka.expire("t", 0, 40)
    play.own(0)
    with caplog.at_level(logging.WARNING):
        play.ownership.requests.want_ends()
        play.wait(1.0)
    assert play.ownership.holdings.ready() == {}
    assert play.reported("or set failOnDataLoss=false") is not claims
    assert [one.message for one in caplog.records if "are gone" in one.message] != []


# Releases -------------------------------------------------------------------------------------------------------------


def test_an_idle_partitions_entry_is_committed_again_although_it_stands(stage: Stage) -> None:
    stage.own(0)
    stage.clock.advance(TIMING.recommit_s + 1)
    work = asked(stage, Commit)
    assert isinstance(work, Commit)
    assert work.offsets.keys() == {0}


def test_what_was_handed_over_is_committed_before_anybody_looks(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.ownership.grants.on_node(
        replace(stage.node, epoch=2, assignments={}, since={}, handoff={0: Handoff("a", "b", 2)})
    )
    stage.clock.advance(TIMING.look_s)
    stage.ownership.batches.cover(stage.batch)
    assert isinstance(stage.ownership.requests.work(), Commit)


def test_what_ran_here_is_released_without_a_further_question_to_kafka(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    give(stage, 0)
    stage.ownership.batches.cover(stage.batch)
    while 0 not in stage.ownership.releasing.outbox:
        work = stage.ownership.requests.work()
        assert isinstance(work, Commit), work
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    assert stage.ownership.releasing.outbox[0].offset == 30


def test_what_ran_in_the_topic_before_it_was_created_anew_is_not_released_as_a_position_of_the_new_one(
    stage: Stage,
) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.kafka.create_topic("t", 4)
    stage.kafka.append("t", 0, 100)
    stage.node = replace(stage.node, topic_id="id-2", group_id="h")
    stage.offsets = stage.kafka.offsets("h")
    give(stage, 0)
    stage.cover()
    stage.wait(1.0)
    release = stage.ownership.releasing.outbox[0]
    assert (release.offset, release.token.epoch) == (0, 0)


def test_a_release_of_what_never_ran_here_says_what_stands_for_this_topic_id(stage: Stage) -> None:
    stage.commit(1, 77, OLD, topic_id="id-0")
    stage.read(handoff={1: Handoff("a", "b", 1)})
    release = stage.ownership.releasing.outbox[1]
    assert (release.offset, release.token.generation) == (0, GENERATION)


def test_a_look_from_before_a_release_was_owed_says_nothing_of_it(stage: Stage) -> None:
    stage.commit(1, 30, OLD)
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={1: "a"}, since={1: 1}))
    fetch = stage.ownership.requests.work()
    assert isinstance(fetch, OffsetFetch)
    found = perform(stage.offsets, "t", fetch)
    stage.node = replace(stage.node, epoch=1)
    stage.ownership.grants.on_node(replace(stage.node, epoch=2, handoff={1: Handoff("a", "b", 2)}))
    stage.commit(1, 55, OLD)
    stage.ownership.requests.answer(found)
    assert stage.ownership.releasing.outbox == {}
    stage.tick()
    assert stage.ownership.releasing.outbox[1].offset == 55


def test_a_posted_release_stays_posted_while_other_partitions_change(stage: Stage) -> None:
    stage.own(0, 1)
    give(stage, 0)
    posted = stage.ownership.releasing.outbox[0]
    stage.node = replace(stage.node, epoch=stage.node.epoch + 1)
    stage.ownership.grants.on_node(stage.node)
    assert stage.ownership.releasing.outbox == {0: posted}


def test_only_the_release_that_was_written_is_no_longer_posted(stage: Stage) -> None:
    stage.ownership.releasing.note(3, 1)
    stage.own(0)
    give(stage, 0)
    epoch = stage.ownership.releasing.outbox[0].epoch
    stage.ownership.releasing.note(0, epoch - 1)
    assert stage.ownership.releasing.outbox.keys() == {0}
    stage.ownership.releasing.note(0, epoch)
    assert stage.ownership.releasing.outbox == {}


def test_what_the_taker_has_begun_under_the_very_entry_is_not_released_any_more(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 40)
    give(stage, 0)
    stage.commit(0, 40, Token(stage.node.epoch, 6, GENERATION), owner="b")
    stage.tick(1.0)
    stage.cover()
    stage.wait(2.0)
    assert (stage.running, stage.ownership.releasing.outbox) == ({}, {})


# What is said ---------------------------------------------------------------------------------------------------------


def test_nobody_at_the_logs_end_is_stalled_however_long_that_was(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 100)
    stage.cover()
    list_offsets(stage)
    stage.clock.advance(500)
    assert stage.ownership.batches.stalled(300) == ()
    list_offsets(stage)
    stage.kafka.append("t", 0, 1)
    list_offsets(stage)
    assert stage.ownership.batches.stalled(300) == ()


def test_started_is_what_a_batch_has_shown_or_what_is_at_the_logs_end(stage: Stage) -> None:
    stage.commit(1, 100, OLD)
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, 1)
    assert {p: one.started for p, one in stage.ownership.status().running.items()} == {0: False, 1: True}
    stage.hand_out(0, 50)
    assert stage.ownership.status().running[0].started


def test_what_is_still_guarded_is_not_started_and_has_no_rate(stage: Stage) -> None:
    stage.own(0, guarded=frozenset({0}))
    running = stage.ownership.status().running[0]
    assert (running.started, running.rate) == (False, None)


def test_who_is_named_by_the_accepted_node_is_involved_until_it_is_isolated(stage: Stage) -> None:
    assert (stage.ownership.grants.involved, stage.ownership.writer.topic_id) == (False, "")
    stage.ownership = TopicOwnership("t", stage.ownership.identity, stage.clock, TIMING, acquiring=False)
    stage.own(0)
    assert (stage.running, stage.ownership.grants.idle, stage.ownership.grants.involved) == ({}, True, True)
    assert stage.ownership.writer.topic_id == "id-1"
    stage.ownership.grants.on_isolated(isolated=True)
    assert not stage.ownership.grants.involved


def test_who_is_named_by_another_incarnation_or_not_at_all_is_not_involved() -> None:
    other, stage = Stage(incarnation=7), Stage()
    other.own(0)
    assert not other.ownership.grants.involved
    stage.read(handoff={0: Handoff("b", "c", 1)})
    assert not stage.ownership.grants.involved


def test_what_is_paused_keeps_nobody_from_having_caught_up(stage: Stage) -> None:
    stage.commit(1, 100, OLD)
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, 1)
    assert not stage.ownership.batches.caught_up
    stage.read(paused=frozenset({0}))
    assert stage.ownership.batches.caught_up


def test_a_pause_of_what_is_not_held_changes_nothing(stage: Stage) -> None:
    assert not stage.ownership.batches.caught_up
    stage.read(paused=frozenset({3}))
    stage.read(paused=frozenset())
    assert stage.running == {}


@pytest.mark.parametrize("why", ["", "asked to end"])
def test_a_stop_is_reported_with_its_reason(stage: Stage, why: str) -> None:
    stage.ownership.grants.stop(why)
    assert stage.ownership.reports.all() == ((why,) if why else ())


def test_as_many_reports_are_kept_as_there_is_room_for() -> None:
    reports = Reports()
    for matter in range(MAX_REPORTS + 1):
        assert len(reports.all()) == matter
        reports.add(matter, str(matter))
    assert reports.all() == tuple(str(matter) for matter in range(1, MAX_REPORTS + 1))


def test_what_has_no_lag_is_in_no_batch_and_progress_carries_the_last_batchs_number(stage: Stage) -> None:
    planner = BatchPlanner(stage.ownership, stage.clock, Pacing(batch_interval_s=0.0))
    stage.commit(1, 100, OLD)
    stage.own(0, 1)
    before = planner.report()
    batch = planner.offer(BatchOffset("t"))
    after = planner.report()
    assert before is not None
    assert batch is not None
    assert after is not None
    assert (before.batch, batch.ranges.keys(), after.batch) == (0, {0}, 1)


def test_a_partition_whose_end_is_not_known_yet_is_in_no_batch(stage: Stage) -> None:
    planner = BatchPlanner(stage.ownership, stage.clock)
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1}))
    asked(stage, ListOffsets)
    assert stage.ownership.holdings.ready().keys() == {0}
    assert planner.offer(BatchOffset("t")) is None


@pytest.mark.parametrize(("option", "most"), [({}, 7), ({"maxOffsetsPerTrigger": "9"}, 9)])
def test_an_option_that_is_not_given_changes_no_pacing(stage: Stage, option: dict[str, str], most: int) -> None:
    planner = BatchPlanner(stage.ownership, stage.clock, Pacing(max_offsets=7))
    planner.configure(parse_options({"subscribe": "t", **option}))
    assert planner.pacing.max_offsets == most


def test_a_listener_may_begin_at_the_very_first_offset() -> None:
    play = Play(Terms(listening=True))
    play.commit(0, 30, OLD)
    play.own(0)
    play.tell({0: 0})
    assert play.ownership.holdings.ready()[0].position == 0


# Watches --------------------------------------------------------------------------------------------------------------


def test_a_path_is_armed_once_until_it_fires() -> None:
    woken: list[str] = []
    watches = Watches(lambda: woken.append("w"))
    fired = watches.arm("/t")
    assert fired is not None
    assert watches.arm("/t") is None
    assert not watches.take("/t")
    fired()
    assert (woken, watches.take("/t"), watches.take("/t"), watches.is_armed("/t")) == (["w"], True, False, False)
