"""Effects and reports of the answers of Kafka and of the sink."""

from dataclasses import replace

import pytest

from spark_apps.agent.ownership.work import Commit, Failed, OffsetFetch, perform
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
