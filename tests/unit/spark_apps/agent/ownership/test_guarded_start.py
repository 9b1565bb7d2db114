"""A start after an owner that may still commit: it has to stay our own for a while."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Seek, Token
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage


def test_a_guarded_start_is_read_only_after_its_commit_stayed_our_own_for_the_commit_timeout(stage: Stage) -> None:
    stage.own(0, guarded=frozenset({0}))
    stage.wait(1.9)
    assert not stage.ownership.holdings.ready()
    stage.wait(0.7)
    assert stage.ownership.holdings.ready().keys() == {0}


def test_a_dead_owners_late_commit_is_overwritten_and_moves_no_reader(stage: Stage) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8)
    stage.own(0)
    stage.wait(0.5)
    stage.commit(0, 40, Token(1, 6, GENERATION))
    stage.wait(TIMING.look_s + 0.5)
    assert stage.ownership.holdings.ready()[0].position == 10
    assert stage.committed(0) == Committed(10, Token(9, 5, GENERATION), "a", "c", "id-1")


@pytest.mark.parametrize(("survivors", "goes_on"), [(40, 40), (5, 10)], ids=["further", "an earlier one, late"])
def test_a_guarded_start_goes_on_from_what_a_survivor_commits_meanwhile_and_waits_anew(
    stage: Stage, survivors: int, goes_on: int
) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, guarded=frozenset({0}))
    stage.wait(1.5)
    stage.commit(0, survivors, Token(1, 6, GENERATION))
    stage.wait(1.5)
    assert not stage.ownership.holdings.ready()
    assert stage.committed(0) == Committed(goes_on, Token(9, 5, GENERATION), "a", "c", "id-1")
    stage.wait(1.5)
    assert stage.ownership.holdings.ready()[0].position == goes_on


def test_a_survivor_that_began_at_the_seek_moves_a_guarded_start(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8, seeks={0: Seek(10, 5)})
    stage.own(0, guarded=frozenset({0}))
    stage.commit(0, 65, Token(5, 6, GENERATION))
    stage.wait(3 * TIMING.guard_s)
    assert stage.ownership.holdings.ready()[0].position == 65
