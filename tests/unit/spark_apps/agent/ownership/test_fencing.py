"""A newer token in the committed entry ends a holding; an older one is written over."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.protocol.holding import Reading
from spark_apps.agent.ownership.owned_partition import OVERWRITTEN_S
from spark_apps.agent.ownership.work import OffsetFetch, perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, give


def test_an_earlier_commit_of_our_own_that_comes_late_is_written_over(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 30)
    stage.wait(0.2)
    stage.commit(0, 0, Token(1, 5, GENERATION), owner="a")
    stage.wait(1.0)
    assert stage.committed(0) == Committed(30, Token(1, 5, GENERATION), "a", "c", "id-1")


def test_an_idle_owner_looks_at_least_once_a_second_and_stops_at_a_newer_token(stage: Stage) -> None:
    stage.own(0, 1)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    assert stage.running == {1: False}
    assert stage.committed(0) == Committed(20, Token(9, 6, GENERATION), "z", "c", "id-1")
    assert stage.reported("partition 0 was taken by z")


def test_a_fenced_partition_neither_commits_nor_releases_and_its_grant_is_not_taken_up_again(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    assert stage.running == {0: True}, "its last batch is still under way"
    stage.cover()
    give(stage, 0)
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}
    assert stage.committed(0).offset == 20


def test_an_entry_newer_than_the_fence_is_released_with_the_committed_offset_not_our_own(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    stage.node = replace(stage.node, epoch=11)
    give(stage, 0)
    stage.cover()
    assert stage.ownership.releasing.outbox[0].offset == 20


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(Token(0, 6, GENERATION), id="an older token"),
        pytest.param(None, id="no token"),
        pytest.param(Token(2**40, 6, GENERATION), id="a token of an epoch that the topic cannot have reached"),
        pytest.param(Token(2**53 - 1, 6, GENERATION), id="the largest token"),
    ],
)
def test_an_overwritten_entry_is_reported_and_written_again(stage: Stage, token: Token | None) -> None:
    stage.own(0)
    stage.process(0, 30)
    stage.wait(0.2)
    if token is None:
        stage.kafka.stored["g", "t", 0] = (5, "somebody's own words")
    else:
        stage.commit(0, 5, token)
    stage.wait(1.2)
    assert stage.committed(0) == Committed(30, Token(1, 5, GENERATION), "a", "c", "id-1")
    assert stage.reported("overwritten")
    over = stage.ownership.status().running[0].overwritten
    assert (over.epoch, 0 < over.ago_s < 1.5) == (token.epoch if token is not None and token.epoch < 2**40 else 0, True)
    stage.wait(OVERWRITTEN_S)
    assert stage.ownership.status().running[0].overwritten is None


def test_a_deleted_entry_is_not_said_to_be_overwritten_by_nobody(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 30)
    stage.wait(0.2)
    del stage.kafka.stored["g", "t", 0]
    stage.wait(1.2)
    assert stage.committed(0).offset == 30
    assert stage.reported("its committed entry is gone (the group or its offsets were deleted")


def test_a_look_whose_answer_came_late_allows_no_last_commit(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    give(stage, 0)
    stage.clock.advance(TIMING.look_s)
    work = stage.ownership.requests.work()
    assert isinstance(work, OffsetFetch)
    answer = perform(stage.offsets, "t", work)
    stage.commit(0, 80, Token(9, 6, GENERATION))
    stage.clock.advance(TIMING.fresh_s + 0.1)
    stage.ownership.requests.answer(answer)
    stage.cover()
    assert stage.committed(0).offset == 80
    assert stage.running == {}


def test_an_isolated_consumer_stops_everything_and_releases_nothing(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.grants.on_isolated(True)
    give(stage, 0, 1)
    stage.cover()
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.status().acted_epoch == 2
    assert stage.committed(0).offset == 30


def test_what_a_lost_isolation_has_ended_begins_again_when_the_node_is_there_and_says_so(stage: Stage) -> None:
    stage.own(0)
    stage.ownership.grants.on_isolated(True)
    stage.tick()
    stage.ownership.grants.on_isolation_lost()
    stage.wait(1)
    assert stage.running == {}
    assert stage.ownership.grants.on_node(stage.node) is Reading.SAME
    stage.wait(1)
    assert stage.running == {0: False}


def test_an_isolated_consumer_looks_before_its_last_commit_and_leaves_a_newer_owner_alone(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 50, Token(9, 6, GENERATION))
    stage.ownership.grants.on_isolated(True)
    stage.cover()
    assert stage.committed(0).offset == 50
