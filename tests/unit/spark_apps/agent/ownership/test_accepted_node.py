"""Which reads of the topic's node are acted on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Handoff, Token
from coordinator_tasks.core.protocol.holding import Reading
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, give, release_of


def test_an_older_epoch_and_a_foreign_generation_are_kept_out_and_reported(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=5)
    stage.own(0)
    assert stage.ownership.grants.on_node(replace(stage.node, epoch=4, assignments={}, since={})) is Reading.OLDER
    assert stage.running == {0: False}
    foreign = replace(stage.node, epoch=50, generation="g2", assignments={}, since={})
    assert stage.ownership.grants.on_node(foreign) is Reading.FOREIGN
    assert stage.reported("kept")
    assert stage.ownership.grants.on_node(replace(foreign, supersedes={GENERATION: 6})) is Reading.ACT
    assert stage.running == {}


@pytest.mark.parametrize("foreign", ["g2", ""], ids=["another generation", "none"])
def test_an_old_post_begins_nothing_once_zookeeper_has_shown_another_node(stage: Stage, foreign: str) -> None:
    stage.node = replace(stage.node, epoch=5)
    stage.own(0)
    grants, both = stage.ownership.grants, {0: "a", 1: "a"}
    older = replace(stage.node, epoch=7, assignments=both, since={0: stage.node.since[0], 1: 7})
    if foreign:
        grants.on_node(replace(stage.node, generation=foreign))
    else:
        grants.on_unreadable("it has vanished")
    grants.on_posted(older)
    stage.wait(1)
    assert stage.running == {0: False}
    grants.on_posted(replace(older, generation="g3", supersedes={GENERATION: 6}))
    stage.wait(1)
    assert stage.running == {0: False, 1: False}, "one that covers what we act on was written since"


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param(lambda stage: stage.ownership.grants.on_node(replace(stage.node, epoch=4)), id="older"),
        pytest.param(lambda stage: stage.ownership.grants.on_node(replace(stage.node, generation="g2")), id="foreign"),
        pytest.param(lambda stage: stage.ownership.grants.on_unreadable("it has vanished"), id="vanished"),
    ],
)
def test_while_another_node_stands_there_nothing_new_is_begun(stage: Stage, stray: Callable[[Stage], object]) -> None:
    stage.node = replace(stage.node, epoch=5)
    stage.own(0)
    assignments, since, epoch = stage.node.assignments, stage.node.since, stage.node.epoch + 1
    stage.read(assignments=assignments, since=since, handoff={1: Handoff("b", "a", epoch)})
    stray(stage)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(1, 6, GENERATION))})
    stage.wait(1)
    assert stage.running == {0: False}
    assert stage.ownership.grants.on_node(stage.node) is Reading.SAME
    assert not stage.ownership.reports.all()
    stage.tick()
    assert stage.running == {0: False, 1: False}


def test_nothing_is_owned_or_released_in_another_group_than_the_nodes(stage: Stage) -> None:
    stage.ownership.holdings.group = "g"
    stage.own(0)
    stage.read(group_id="h")
    assert stage.ownership.holdings.held == {}
    give(stage, 0)
    stage.wait(1.0)
    assert not stage.ownership.releasing.posted
    stage.own(1)
    assert stage.ownership.holdings.held == {}
    stage.ownership.grants.ask_in("h")
    assert stage.ownership.holdings.held.keys() == {1}
