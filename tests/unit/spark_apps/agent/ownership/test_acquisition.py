"""How a partition is taken up: the start is committed under the new token before anything is read."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Handoff, Release, Seek, Token
from spark_apps.agent.ownership.work import Commit, Failed, OffsetFetch, perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage, asked, release_of, take


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
    work = asked(stage, Commit)
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
    asked(stage, Commit)
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


def test_the_taker_starts_at_the_released_offset_under_the_epoch_of_the_entry(stage: Stage) -> None:
    stage.commit(1, 40, Token(0, 6, GENERATION))
    take(stage, 1)
    stage.wait(1)
    assert stage.running == {}
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(1, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 55
    assert stage.committed(1).token == Token(1, 5, GENERATION)


def test_the_taker_prefers_a_committed_position_with_a_token_as_new_as_the_release(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=4)
    stage.commit(1, 60, Token(3, 6, GENERATION))
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(3, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 60


def asks_id(stage: Stage) -> list[tuple[tuple[int, ...], bool]]:
    """Perform the due requests: the partitions of each look, and whether the look asks for the topic's id."""
    found = []
    while (work := stage.ownership.requests.work()) is not None:
        if isinstance(work, OffsetFetch):
            found.append((work.partitions, work.asks_id))
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return found


def await_release(stage: Stage, topic_id: str = "id-1") -> None:
    """Partition 0 moves to us after the release of `b`."""
    entry = Handoff("b", "a", stage.node.epoch + 1)
    stage.node = replace(stage.node, epoch=entry.epoch, handoff={0: entry}, topic_id=topic_id)
    stage.ownership.grants.on_node(stage.node)


def released(stage: Stage) -> dict[int, Release]:
    return {0: release_of(stage, 0, 40, Token(1, 6, GENERATION))}


def test_a_taker_asks_for_the_topics_id_while_it_waits_and_not_again(stage: Stage) -> None:
    await_release(stage)
    assert stage.ownership.requests.next_at() <= stage.clock.monotonic()
    assert asks_id(stage) == [((), True)]
    assert asks_id(stage) == []
    stage.ownership.grants.on_releases(released(stage))
    assert asks_id(stage)[0] == ((0,), False)


def test_whoever_starts_without_a_release_asks_for_the_id(stage: Stage) -> None:
    await_release(stage)
    assert asks_id(stage) == [((), True)]
    epoch = stage.node.epoch + 1
    stage.node = replace(stage.node, epoch=epoch, handoff={}, assignments={0: "a"}, since={0: epoch})
    stage.ownership.grants.on_node(stage.node)
    assert asks_id(stage)[0] == ((0,), True)


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
def test_a_guarded_start_follows_a_survivors_commit_and_waits_anew(stage: Stage, survivors: int, goes_on: int) -> None:
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
