"""Reasons for a partition's place: sentences for a person, and their record in the history."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.assignors import ASSIGNORS, Problem
from coordinator_tasks.core.assignors.explain import SolvedProblem, digest, explained, shortened
from coordinator_tasks.core.model import Explanation, Member, Reason, Split
from coordinator_tasks.core.text.partition_text import numbers

SHARP = {"tolerance": "0.1", "hysteresis": "0", "min.gain": "0", "floor": "0", "partition.weight": "0"}


def asked(
    strategy: str, weights: list[float], members: str, owned: str = "", *, pins: Mapping[int, str] | None = None, idle: str = "",
    **more: Any,
) -> SolvedProblem:  # fmt: skip
    """`owned` names the holder of each partition by one letter, `.` = no holder; `a/r1` of `members` is in a rack.

    Members in `idle` have no capacity.
    """
    split = [one.partition("/") for one in members.split()]
    everybody = {name: Member(name, 1, "", "", rack=rack, capacity=float(name not in idle)) for name, _, rack in split}
    holders = {p: m for p, m in enumerate(owned) if m != "."}
    parameters = {**SHARP, **{n.replace("_", "."): text for n, text in more.pop("parameters", {}).items()}}
    problem = Problem(
        "orders",
        tuple(range(len(weights))),
        everybody,
        {p: m for p, m in holders.items() if m in everybody},
        parameters=parameters if strategy == "weighted" else {},
        weights=dict(enumerate(weights)),
        **more,
    )
    answer = ASSIGNORS[strategy].assign(problem) if strategy in ASSIGNORS else dict.fromkeys(problem.partitions, "b")
    return SolvedProblem(
        strategy, problem, answer, holders, pins or {}, getattr(ASSIGNORS.get(strategy), "explainer", None)
    )


def told(found: Explanation) -> list[tuple[int, str]]:
    """Every partition with its sentence."""
    said = [(f"moves: {one.text}", one) for one in found.moves] + [(f"stays: {one.text}", one) for one in found.stays]
    return sorted((partition, text) for text, one in said for partition in one.partitions)


IDLE = asked("weighted", [1, 1], "a b", "aa")
TWO_OF_FOUR = asked("balanced", [1] * 4, "a b", "aaaa")


@pytest.mark.parametrize(
    ("question", "partition", "said"),
    [
        pytest.param(
            TWO_OF_FOUR, 3, "moves: a had 4 and keeps 2, b had 0 and gets 2; the even share is 2", id="balanced moves",
        ),
        pytest.param(
            asked("balanced", [1] * 3, "a b", "aab"), 0,
            "stays: a had 2 and has 2, so this one stays; the even share is 1 to 2", id="balanced keeps",
        ),
        pytest.param(
            asked("balanced", [1] * 4, "a b", "aaab", fixed=dict.fromkeys(range(3), "a")), 3,
            "stays: b had 1 and has 1, so this one stays", id="as even as what is fixed allows",
        ),
        pytest.param(
            asked("balanced", [1] * 2, "a b", "a."), 1,
            "moves: nobody had it: b had 0 and gets 1; the even share is 1", id="nobody had it",
        ),
        pytest.param(
            asked("balanced", [1] * 2, "a b", "ax"), 1,
            "moves: x cannot keep it: b had 0 and gets 1; the even share is 1", id="its owner is no member",
        ),
        pytest.param(
            asked("balanced", [1] * 2, "a b", "ab", fixed={0: "b"}, pins={0: "b"}), 0,
            "moves: b has it because a person pinned it there", id="pinned",
        ),
        pytest.param(
            asked("balanced", [1] * 2, "a b", "ab", fixed={0: "a"}), 0,
            "stays: a has it and it is not touched: it is on its way, or nobody can take it from a now", id="on its way",
        ),
        pytest.param(
            replace(
                asked("balanced", [1] * 2, "a b", "ab", fixed={0: "a", 1: "b"}), split=Split("shop", ("b",), frozenset({1})),
                kept=frozenset({0, 1}),
            ), 0,
            "stays: a keeps it, as the upgrade of shop asks in this step", id="an upgrade keeps it",
        ),
        pytest.param(asked("balanced", [1], "", "."), 0, "stays: no live consumer may have it", id="nobody is there"),
        pytest.param(
            asked("mine", [1] * 2, "a b", "ab"), 0,
            "moves: a had 1 and keeps 0, b had 1 and gets 2, by the rule of mine", id="a strategy without words of its own",
        ),
        pytest.param(
            asked("range", [1] * 4, "a b", "bbaa"), 0,
            "moves: b had 2 and keeps 2, a had 2 and gets 2, by the rule of range", id="a rule that looks at numbers",
        ),
        pytest.param(
            asked("weighted", [4, 4, 4], "a b", "aaa"), 2,
            "moves: a carried 12 records/s (200 % of the level), above the tolerance of 10 %; "
            "b carried 0 records/s (0 % of the level)", id="relieved",
        ),
        pytest.param(
            asked("weighted", [0.25, 0.25], "a b", "aa"), 0,
            "moves: a carried 0.5 records/s (200 % of the level), above the tolerance of 10 %; "
            "b carried 0 records/s (0 % of the level)", id="small ones have a fraction",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a b", "ab", idle="a"), 0,
            "moves: a has no capacity; b carried 4 records/s (50 % of the level)", id="no capacity",
        ),
        pytest.param(
            asked("weighted", [4, 4, 4], "a b", "aab"), 0,
            "stays: a carries 8 records/s (133 % of the level), but no allowed move would gain 0 % of the level",
            id="no move would help",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a b", "ab"), 0,
            "stays: a carries 4 records/s (100 % of the level), within the tolerance of 10 %", id="within the tolerance",
        ),
        pytest.param(
            asked("weighted", [4, 4, 4, 2], "a b", "aabb", parameters={"hysteresis": "0.2"}), 0,
            "stays: a carries 8 records/s (114 % of the level), and nobody is above the level by more than the tolerance "
            "and the hysteresis, 30 %", id="the hysteresis waits",
        ),
        pytest.param(
            asked("weighted", [4] * 4, "a b", "aaaa", parameters={"max_moves": "1"}), 0,
            "stays: a carries 12 records/s (150 % of the level), but all 1 moves of max.moves are used", id="budget",
        ),
        pytest.param(
            asked("weighted", [4] * 4, "a b c", "aabb", parameters={"tolerance": "1", "floor": "0.5"}), 0,
            "moves: c was below the floor of 50 %: c carried 0 records/s (0 % of the level); a 8 records/s (150 % of the level)",
            id="the floor",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a b", "ab", parameters={"bans": "a: 0"}), 0,
            "moves: a is banned from it; b carried 4 records/s (100 % of the level)", id="banned",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a/r1 b/r2", "ab", zones={0: ("r2",)}, parameters={"zones": "require"}), 0,
            "moves: a is in no rack of its replicas (r2); b carried 4 records/s (100 % of the level), in a rack of its replicas",
            id="racks",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a/r1 b/r2", "aa", zones={0: ("r1",), 1: ("r1",)}, parameters={"zones": "prefer"}), 0,
            "moves: a carried 8 records/s (200 % of the level), above the tolerance of 10 %; "
            "b carried 0 records/s (0 % of the level), in no rack of its replicas", id="no rack",
        ),
        pytest.param(
            asked("weighted", [1, 4, 4], "a b", "aab", parameters={"max_partitions": "1; b: 9"}), 0,
            "moves: a had 2 partitions of all topics, more than max.partitions 1; b carried 4 records/s (88.9 % of the level)",
            id="too many",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a b", "..", parameters={"measure": "lag"}), 0,
            "moves: nobody had it: a carried least of those that may have it, 0 records of lag (0 % of the level)", id="given",
        ),
        pytest.param(
            asked("weighted", [4, 4], "a", "..", parameters={"max_partitions": "1"}), 1,
            "stays: every consumer that may have it is at max.partitions already: a", id="no room",
        ),
        pytest.param(
            asked("weighted", [4], "a", ".", parameters={"bans": "a: *"}), 0,
            "stays: no live consumer may have it: bans and capacities leave nobody", id="banned everywhere",
        ),
        pytest.param(
            asked("weighted", [1, 1, 1], "a b c", "ab.", parameters={"bans": "c: 2; b: 2", "max_partitions": "1"}), 0,
            "moves: a made room for a partition that few may have; c carried 0 records/s (0 % of the level)", id="a chain",
        ),
    ],
)  # fmt: skip
def test_the_sentence(question: SolvedProblem, partition: int, said: str) -> None:
    assert [text for number, text in told(explained(question)) if number == partition] == [said]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        pytest.param(TWO_OF_FOUR, "balanced: 2 of 4 partitions leave an owner; then 2 each", id="balanced"),
        pytest.param(
            asked("weighted", [4] * 4, "a b", "aaaa", parameters={"max_moves": "9"}),
            "weighted by records: 2 moves of 9 allowed; the fullest is b with 8 records/s (100 % of the level)",
            id="weighted",
        ),
        pytest.param(
            asked("weighted", [4], "a", "a", parameters={"bans": "a: *"}),
            "weighted by records: no consumer may have anything",
            id="nobody",
        ),
    ],
)  # fmt: skip
def test_the_summary(question: SolvedProblem, said: str) -> None:
    assert explained(question).summary == said


def test_every_partition_is_in_one_sentence_and_only_those_asked_for() -> None:
    question = asked("weighted", [float(w) for w in range(20)], "a b c", "a" * 12 + "........")
    assert [partition for partition, _ in told(explained(question))] == list(range(20))
    assert [partition for partition, _ in told(explained(question, only=[3, 15]))] == [3, 15]


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {0: 2.0}},
        {"owned": {0: "b"}},
        {"fixed": {1: "a"}},
        {"loads": {"a": 1}},
        {"carried": {"a": 1.0}},
        {"zones": {0: ("r1",)}},
        {"parameters": {}},
        {"partitions": (0,)},
        {"members": {"a": Member("a", 1, "", "", attributes={"x": "y"})}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_changes_with_everything_that_the_strategy_is_given(change: dict[str, Any]) -> None:
    assert digest(replace(IDLE, problem=replace(IDLE.problem, **change))) != digest(IDLE)


def test_the_digest_changes_with_who_may_have_what_during_an_upgrade() -> None:
    splits = (None, Split("x", ("a",)), Split("x", ("b",)), Split("x", ("b",), frozenset({1})))
    assert len({digest(replace(IDLE, split=one)) for one in splits}) == len(splits)


def test_what_does_not_fit_into_the_history_is_left_out_by_its_size() -> None:
    many = Reason("many", tuple(range(5, 50)))
    whole = Explanation("s", "i", "sum", (Reason("one", (0,)), Reason("two", (1, 2)), many), (Reason("stays", (60,)),))
    assert shortened(whole, 10_000).moves == whole.moves
    assert shortened(whole, 10_000).stays == ()
    assert shortened(whole, 450).moves == (many,)
    assert shortened(whole, 0) == Explanation("s", "i", "sum")
    one = Explanation("s", "i", "sum", (Reason("one", (0,)),))
    assert [len(shortened(one, size).moves) for size in (50, 51)] == [0, 1]


@pytest.mark.parametrize("text", ["a", "3-1", "1,1", "2,1", "-1", "0-99999999", "1,,2", "1-"])
def test_no_other_text_is_read_as_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        numbers(text)
