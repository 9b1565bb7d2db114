"""After a commit that was on its way for too long, nothing is committed or handed out for a while."""

from coordinator_tasks.core.model import Token
from spark_apps.agent.ownership.work import perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, start_of


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
