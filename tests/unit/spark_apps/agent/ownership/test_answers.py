"""What the answers of Kafka and of the sink change, and what is reported of them."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.protocol.fence import Bounds
from spark_apps.agent.ownership.work import (
    Commit,
    Failed,
    ListBounds,
    ListedBounds,
    OffsetFetch,
    perform,
)
from tests.unit.spark_apps.agent.ownership.stage import OLD, TIMING, Stage, asked


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
    assert stage.reported(f"was overwritten by {shown}; it was")


def test_an_entry_that_is_written_again_says_no_more_than_has_passed_the_sink(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.own(0)
    stage.hand_out(0, 50)
    stage.commit(0, 5, OLD)
    stage.tick(1.0)
    assert (stage.committed(0).offset, stage.committed(0).owner) == (0, "a")
