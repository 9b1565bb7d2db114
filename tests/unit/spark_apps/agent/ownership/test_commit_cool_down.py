"""After a commit that was on its way for too long, nothing is committed or handed out for a while."""

import pytest

from coordinator_tasks.core.model import Token
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.work import Failed, perform
from spark_apps.records.batches import BatchOffset, Range
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, give, start_of


def late_commit(stage: Stage, timely: bool = False) -> None:
    """It processes up to 50, and sleeps while that commit is on its way; another takes the partition over meanwhile."""
    stage.own(0, 1)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = start_of(stage)
    assert work.offsets[0].offset == 50
    stage.commit(0, 40, Token(2, 6, GENERATION))
    stage.clock.advance(TIMING.fresh_s + (0 if timely else 1))
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.hand_out(0, 70)
    stage.cover()


def test_after_a_commit_that_came_late_nothing_is_committed_until_a_newer_owner_could_write_its_own_again(
    stage: Stage,
) -> None:
    late_commit(stage)
    stage.wait(TIMING.cool_down_s - 0.1)
    assert stage.committed(0).offset == 50
    stage.commit(0, 45, Token(2, 6, GENERATION))
    stage.wait(1.0)
    assert stage.committed(0).offset == 45
    assert 0 not in stage.running
    assert stage.reported("was taken by z")


@pytest.mark.parametrize("failed", [False, True])
def test_what_passes_after_a_commit_that_came_late_is_committed_when_nobody_has_taken_the_partition(
    stage: Stage, failed: bool
) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = start_of(stage)
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(Failed("no answer") if failed else perform(stage.offsets, "t", work))
    stage.hand_out(0, 70)
    stage.cover()
    stage.wait(TIMING.cool_down_s - 0.1)
    assert stage.committed(0).offset == (0 if failed else 50)
    assert stage.ownership.requests.next_at() - stage.clock.monotonic() == pytest.approx(0.1, abs=1e-6)
    stage.tick(0.11)
    assert stage.committed(0).offset == 70


def test_whoever_is_still_the_owner_plans_on_after_the_look(stage: Stage) -> None:
    planner, start = BatchPlanner(stage.ownership, stage.clock), BatchOffset("t")
    stage.own(0)
    stage.clock.advance(TIMING.fresh_s)
    assert stage.ownership.batches.readable().keys() == {0}
    stage.clock.advance(0.1)
    assert planner.offer(start) is None
    assert stage.ownership.holdings.ready().keys() == {0}, "it is held all the same"
    stage.tick()
    batch = planner.offer(start)
    assert batch is not None
    assert batch.ranges == {0: Range(0, 0, 100, 1)}


def test_after_a_commit_that_came_late_nothing_is_handed_out_until_a_newer_owner_could_write_its_own_again(
    stage: Stage,
) -> None:
    late_commit(stage)
    assert stage.ownership.batches.readable().keys() == {1}, (
        "no commit of partition 1 was late, and it was looked at just now"
    )
    stage.wait(TIMING.cool_down_s - 0.1)
    assert 0 not in stage.ownership.batches.readable()
    stage.wait(TIMING.look_s + 0.2)
    assert stage.ownership.batches.readable().keys() == {0, 1}


def test_a_hand_off_after_a_commit_that_came_late_waits_for_that_alone(stage: Stage) -> None:
    late_commit(stage)
    give(stage, 0)
    assert stage.ownership.status().running[0].closing
    stage.wait(TIMING.cool_down_s + 0.1)
    assert stage.committed(0).offset == 70
    assert 0 not in stage.running
