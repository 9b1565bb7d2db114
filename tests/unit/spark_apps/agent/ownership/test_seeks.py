"""A partition that a person has sent to another offset."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Seek, Token
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, release_of, take


def seek(stage: Stage, partition: int, offset: int) -> None:
    epoch = stage.node.epoch + 1
    stage.read(since={**stage.node.since, partition: epoch}, seeks={partition: Seek(offset, epoch)})


def test_a_seek_is_done_by_stopping_and_starting_anew_and_only_once(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 80)
    seek(stage, 0, 20)
    assert stage.running[0], "the batch under way comes first"
    assert stage.committed(0).offset == 0
    stage.cover()
    assert stage.committed(0) == Committed(20, Token(2, 5, GENERATION), "a", "c", "id-1")
    assert {p: h.position for p, h in stage.ownership.holdings.ready().items()} == {0: 20, 1: 0}
    stage.process(0, 50)
    stage.tick(0.1)
    assert stage.committed(0).offset == 50
    stage.own(0, 1, epoch=9)
    assert stage.ownership.holdings.ready()[0].position == 50, "a later start goes on from what is committed"


@pytest.mark.parametrize(("acquired", "begins"), [(6, 30), (7, 90)], ids=["before the seek", "after the seek"])
def test_a_taker_begins_at_the_seek_unless_its_giver_had_begun_there(stage: Stage, acquired: int, begins: int) -> None:
    stage.commit(1, 90, Token(acquired, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8, seeks={1: Seek(30, 7)})
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 90, Token(acquired, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == begins


def test_what_a_survivor_commits_from_before_a_seek_does_not_undo_it(stage: Stage) -> None:
    stage.commit(0, 60, Token(2, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8, seeks={0: Seek(10, 5)})
    stage.own(0, guarded=frozenset({0}))
    stage.commit(0, 65, Token(2, 6, GENERATION))
    stage.wait(6.0)
    assert stage.committed(0).offset == 10
    assert stage.ownership.holdings.ready()[0].position == 10
