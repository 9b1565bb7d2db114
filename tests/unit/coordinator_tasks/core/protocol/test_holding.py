"""The consumer's rules 3 to 5 of the hand-off, and which reads of the topic node it accepts."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Handoff, Release, Token, TopicNode
from coordinator_tasks.core.protocol.holding import (
    Grant,
    Reading,
    Via,
    accepts,
    all_may_hold,
    changes,
    grants,
    may_hold,
    owes_release,
    takes_over,
)

NODE = TopicNode(
    "host:9092",
    "g",
    7,
    "g1",
    "t1",
    assignments={0: "a", 1: "b", 4: "a"},
    since={0: 3, 1: 6, 4: 7},
    handoff={2: Handoff("b", "a", 7), 3: Handoff("a", "b", 5)},
    incarnations={"a": 2, "b": 1},
    guarded=frozenset({4}),
)
RELEASE = Release(7, "b", 1, 55, "g1", Token(4, 1, "g1"))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(NODE, Reading.SAME, id="the same again"),
        pytest.param(replace(NODE, epoch=8), Reading.ACT, id="a later epoch"),
        pytest.param(replace(NODE, epoch=6), Reading.OLDER, id="an earlier epoch"),
        pytest.param(replace(NODE, epoch=8, generation="g2"), Reading.FOREIGN, id="another generation"),
        pytest.param(
            replace(NODE, epoch=8, generation="g2", supersedes={"g1": 7}), Reading.ACT, id="one that covers ours"
        ),
        pytest.param(
            replace(NODE, epoch=8, generation="g2", supersedes={"g1": 6}), Reading.FOREIGN, id="one that covers less"
        ),
        pytest.param(
            replace(NODE, epoch=7, generation="g2", supersedes={"g1": 7}), Reading.FOREIGN, id="covers, but no later"
        ),
        pytest.param(
            replace(NODE, epoch=8, generation="g2", supersedes={"g0": 9}), Reading.FOREIGN, id="covers another one"
        ),
    ],
)
def test_which_read_becomes_the_picture(seen: TopicNode, expected: Reading) -> None:
    assert accepts(NODE, seen) is expected


def test_what_stands_in_assignments_may_run_under_its_own_since() -> None:
    assert grants(NODE, "a", 2, {}, isolated=False) == {
        0: Grant(0, Token(3, 2, "g1"), Via.ASSIGNED),
        4: Grant(4, Token(7, 2, "g1"), Via.GUARDED),
    }


def test_the_taker_starts_with_the_release_under_the_entrys_epoch() -> None:
    found = grants(NODE, "a", 2, {2: RELEASE}, isolated=False)[2]
    assert (found.token, found.via, found.release) == (Token(7, 2, "g1"), Via.RELEASED, RELEASE)
    assert found.token.generation == "g1"


def test_a_taker_that_begins_when_its_hand_off_is_confirmed_starts_with_the_release_as_well() -> None:
    node = replace(NODE, epoch=8, assignments={2: "a"}, since={2: 7}, handoff={})
    assert grants(node, "a", 2, {2: RELEASE}, isolated=False)[2].release == RELEASE


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(replace(RELEASE, epoch=6), id="the release of an earlier entry"),
        pytest.param(replace(RELEASE, epoch=8), id="the release of a later entry"),
        pytest.param(replace(RELEASE, by="a"), id="written by somebody else"),
        pytest.param(replace(RELEASE, generation="g0"), id="of another generation"),
    ],
)
def test_the_taker_does_not_start_on(release: Release) -> None:
    assert 2 not in grants(NODE, "a", 2, {2: release}, isolated=False)


@pytest.mark.parametrize(
    ("picture", "incarnation", "isolated"),
    [
        pytest.param(NODE, 1, False, id="an incarnation that is not the one named"),
        pytest.param(NODE, 3, False, id="a later incarnation"),
        pytest.param(NODE, 2, True, id="an isolated consumer"),
        pytest.param(replace(NODE, removed=True), 2, False, id="a removed topic"),
        pytest.param(None, 2, False, id="no picture"),
        pytest.param(replace(NODE, incarnations={}), 2, False, id="nobody named"),
    ],
)
def test_it_runs_takes_and_releases_nothing_with(picture: TopicNode | None, incarnation: int, isolated: bool) -> None:
    assert grants(picture, "a", incarnation, {2: RELEASE}, isolated) == {}
    for rule in (takes_over, may_hold, owes_release):
        assert rule(picture, "a", incarnation, isolated) == {}


@pytest.mark.parametrize("removed", [False, True])
def test_what_all_may_hold_is_what_each_may(removed: bool) -> None:
    node = replace(NODE, removed=removed)
    found = all_may_hold(node)
    assert found.keys() == (set() if removed else {"a", "b"})
    for consumer, incarnation in node.incarnations.items():
        assert found.get(consumer, {}) == may_hold(node, consumer, incarnation, isolated=False)


GRANT = Grant(0, Token(5, 1, "g1"), Via.ASSIGNED)


@pytest.mark.parametrize(
    ("granted", "running", "closing", "stop", "start"),
    [
        pytest.param({0: GRANT}, {}, (), (), (0,), id="starts what it holds"),
        pytest.param({0: GRANT}, {0: Token(5, 1)}, (), (), (), id="goes on"),
        pytest.param({}, {0: Token(5, 1)}, (), (0,), (), id="stops what it no longer holds"),
        pytest.param({}, {0: Token(5, 1)}, (0,), (), (), id="is stopping it already"),
        pytest.param({0: GRANT}, {0: Token(4, 1)}, (), (0,), (), id="stops a holding older than since, to start again"),
        pytest.param({0: GRANT}, {0: Token(6, 1)}, (), (), (), id="a newer holding goes on"),
        pytest.param({0: GRANT}, {0: Token(5, 1)}, (0,), (), (), id="held again while stopping: first let it stop"),
    ],
)
def test_changes_bring_what_runs_in_line_with_what_may(
    granted: dict[int, Grant], running: dict[int, Token], closing: tuple[int, ...], stop: object, start: object
) -> None:
    todo = changes(granted, running, closing, {}, {})
    assert (todo.stop, tuple(g.partition for g in todo.start)) == (stop, start)


@pytest.mark.parametrize(
    ("running", "released", "expected"),
    [
        pytest.param({}, {}, (3,), id="not running: released"),
        pytest.param({3: Token(1, 1)}, {}, (), id="still running: not yet"),
        pytest.param({}, {3: 5}, (), id="released already"),
        pytest.param({}, {3: 4}, (3,), id="released for an earlier entry"),
    ],
)
def test_releases_that_are_due(running: dict[int, Token], released: dict[int, int], expected: tuple[int, ...]) -> None:
    assert changes({}, running, tuple(running), {3: Handoff("a", "b", 5)}, released).release == expected
