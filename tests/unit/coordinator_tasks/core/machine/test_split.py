"""Who may have which partitions during an upgrade, as sides of a split."""

import pytest

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.machine import planning
from coordinator_tasks.core.machine.split import kept, sides
from coordinator_tasks.core.model import Member, Split

ALL = (0, 1, 2, 3)
ABLE = {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("split", "able", "expected"),
    [
        (None, ABLE, [(ALL, ABLE)]),
        (Split("x", ("c",), frozenset({1, 3})), ABLE, [((1, 3), {"c": 3}), ((0, 2), {"a": 1, "b": 2})]),
        (Split("x", ("c",)), ABLE, [(ALL, {"a": 1, "b": 2})]),
        (Split("x", ("c",), frozenset(ALL)), ABLE, [(ALL, {"c": 3})]),
        (Split("x", ("d",), frozenset({1})), ABLE, [(ALL, ABLE)]),
        (Split("x", ("a", "b", "c"), frozenset({1})), ABLE, [(ALL, ABLE)]),
        (Split("x", ("c",), frozenset({1, 9})), {}, [(ALL, {})]),
        (Split("x", ("c",), frozenset({1, 9})), ABLE, [((1,), {"c": 3}), ((0, 2, 3), {"a": 1, "b": 2})]),
    ],
    ids=[
        "without a split everything is for everybody",
        "each side has its partitions and consumers",
        "new consumers without a partition get none",
        "all partitions are for the new consumers",
        "no new consumer is there: the others have everything",
        "no other consumer is there: the new ones have everything",
        "nobody is there",
        "a partition that is not there counts for nothing",
    ],
)
def test_sides(
    split: Split | None, able: dict[str, int], expected: list[tuple[tuple[int, ...], dict[str, int]]]
) -> None:
    assert sides(split, ALL, able) == expected


def test_the_strategy_is_told_of_one_side_alone() -> None:
    members = {who: Member(who, 1, "http://h:1", "boot") for who in "ac"}
    owned = {0: "a", 1: "c", 2: "c", 3: "a"}
    whole = Problem("t", ALL, members, owned, {1: "c"}, weights=dict.fromkeys(ALL, 2.0), carried={"a": 5.0, "c": 6.0})
    assert planning._of_side(whole, (0, 2), {"a": 1}) == Problem(
        "t", (0, 2), {"a": members["a"]}, {0: "a"}, weights={0: 2.0, 2: 2.0}, carried={"a": 5.0}
    )


def test_a_partition_on_its_own_side_stays_with_its_owner() -> None:
    owned = {0: "a", 1: "a", 2: "c", 3: "c"}
    assert kept(Split("x", ("c",), frozenset({1, 3})), owned) == {0: "a", 3: "c"}
    assert kept(None, owned) == {}
