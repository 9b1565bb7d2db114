"""How a partition is taken up: the start is committed under the new token before anything is read."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Token
from spark_apps.agent.ownership.work import Commit, Failed, OffsetFetch, perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, start_of


def test_the_start_is_committed_under_the_new_token_before_anything_is_read(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={1: "a"}, since={1: 9}))
    while (work := stage.ownership.requests.work()) is not None:
        assert not stage.ownership.holdings.ready()
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
        if isinstance(work, Commit):
            break
    assert stage.committed(1) == Committed(0, Token(9, 5, GENERATION), "a", "c", "id-1")
    assert stage.ownership.holdings.ready().keys() == {1}


@pytest.mark.parametrize(
    "late", [Token(1, 5, GENERATION), Token(0, 4, GENERATION), None], ids=["own", "older", "foreign"]
)
def test_a_late_commit_does_not_set_a_start_back_whose_outcome_is_unknown(stage: Stage, late: Token | None) -> None:
    stage.commit(0, 100, Token(1, 5, GENERATION), owner="a")
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a"}, since={0: 9}))
    work = start_of(stage)
    perform(stage.offsets, "t", work)
    stage.ownership.requests.answer(Failed("no answer within 2 s"))
    assert stage.committed(0).offset == 100
    stage.offsets.commit("t", {0: Committed(83, late, "a", "c", "id-1" if late else "")})
    stage.tick(TIMING.fresh_s + 1)
    assert stage.committed(0) == Committed(100, Token(9, 5, GENERATION), "a", "c", "id-1")
    assert stage.ownership.holdings.ready()[0].position == 100


@pytest.mark.parametrize(
    "standing",
    [Committed(100, Token(1, 6, GENERATION), "z", "c", "id-1"), Committed(100, None)],
    ids=["an owner's", "foreign"],
)
def test_a_newer_commit_that_comes_to_light_sets_a_start_back_all_the_same(stage: Stage, standing: Committed) -> None:
    stage.offsets.commit("t", {0: standing})
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a"}, since={0: 9}))
    start_of(stage)
    stage.ownership.requests.answer(Failed("no answer within 2 s"))
    stage.commit(0, 60, Token(2, 7, GENERATION))
    stage.tick(TIMING.fresh_s + 1)
    assert stage.ownership.holdings.ready()[0].position == 60


def test_a_look_that_began_before_the_grant_says_nothing_of_it(stage: Stage) -> None:
    stage.own(0, 1)
    stage.clock.advance(1.0)
    fetch = stage.ownership.requests.work()
    assert isinstance(fetch, OffsetFetch)
    result = perform(stage.offsets, "t", fetch)
    stage.ownership.grants.on_node(replace(stage.node, epoch=7, assignments={0: "a", 1: "a"}, since={0: 1, 1: 7}))
    stage.commit(1, 50, Token(3, 6, GENERATION))
    stage.ownership.requests.answer(result)
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 50


def test_a_newer_token_at_acquisition_keeps_the_partition_closed(stage: Stage) -> None:
    stage.commit(2, 70, Token(90, 6, GENERATION))
    stage.own(2)
    assert stage.running == {}
    assert stage.committed(2).token == Token(90, 6, GENERATION)


def test_what_is_granted_and_neither_ready_nor_closing_is_starting(stage: Stage) -> None:
    assert not stage.ownership.holdings.starting
    stage.node = replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1})
    stage.ownership.grants.on_node(stage.node)
    assert stage.ownership.holdings.starting
    stage.wait(1)
    assert not stage.ownership.holdings.starting
    stage.read(assignments={0: "a", 1: "a"}, since={0: 1, 1: 2})
    assert stage.running == {0: False, 1: False}
    assert not stage.ownership.holdings.starting
