"""What is stopped, committed and closed, and the releases that are owed."""

from dataclasses import replace

from coordinator_tasks.core.model import Handoff, Release, Token
from spark_apps.agent.ownership.work import Commit, OffsetFetch, perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, OLD, TIMING, Stage, asked, give


def test_a_partition_runs_until_its_batch_is_covered_then_is_committed_closed_and_released(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    give(stage, 0)
    assert stage.running == {0: True, 1: False}
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.holdings.ready().keys() == {1}
    stage.ownership.batches.cover(stage.batch)
    assert stage.ownership.releasing.outbox == {}, "the commit comes before the release"
    stage.tick()
    assert stage.committed(0).offset == 30
    assert stage.running == {1: False}
    assert stage.ownership.releasing.outbox == {0: Release(2, "a", 5, 30, GENERATION, Token(1, 5, GENERATION))}


def test_a_giver_that_does_not_run_the_partition_releases_it_with_the_committed_offset(stage: Stage) -> None:
    stage.commit(3, 60, Token(1, 6, GENERATION))
    stage.node = replace(stage.node, epoch=4)
    give(stage, 3)
    assert stage.ownership.releasing.outbox == {3: Release(5, "a", 5, 60, GENERATION, Token(1, 6, GENERATION))}


def test_an_idle_partitions_entry_is_committed_again_although_it_stands(stage: Stage) -> None:
    stage.own(0)
    stage.clock.advance(TIMING.recommit_s + 1)
    work = asked(stage, Commit)
    assert work.offsets.keys() == {0}


def test_a_release_for_an_earlier_hand_off_is_not_written_for_a_later_one(stage: Stage) -> None:
    stage.own(0)
    give(stage, 0)
    stage.tick()
    outbox = stage.ownership.releasing.outbox
    assert outbox.keys() == {0}
    stage.ownership.releasing.prune({0: Handoff("a", "c", outbox[0].epoch + 1)})
    assert stage.ownership.releasing.outbox == {}


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


def test_releases_wait_for_partitions_with_a_due_commit(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.kafka.down = True
    give(stage, 0, 1)
    assert (set(stage.ownership.releasing.outbox), set(stage.ownership.releasing.posted)) == ({1}, set())
    stage.kafka.down = False
    stage.tick(TIMING.retry_s)
    assert set(stage.ownership.releasing.posted) == {0, 1}


def test_releases_do_not_wait_long_for_a_commit(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.kafka.down = True
    give(stage, 0, 1)
    stage.tick(TIMING.together_s)
    assert set(stage.ownership.releasing.posted) == {1}
