"""Group strategies as strategies of one topic for the coordinator."""

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from coordinator_tasks.core.assignors import ASSIGNORS, Problem, validate
from coordinator_tasks.core.assignors.topic_strategies import STATELESS
from coordinator_tasks.core.model import Member
from tests.unit.coordinator_tasks.core.assignors.test_weighted import problems


def turned(question: Problem) -> Problem:
    """The same problem with each mapping the other way round."""
    mappings = {
        one.name: value for one in fields(question) if isinstance(value := getattr(question, one.name), Mapping)
    }
    return replace(question, **{name: dict(reversed(value.items())) for name, value in mappings.items()})


@pytest.mark.parametrize("strategy", ["balanced", "weighted", *STATELESS])
@settings(max_examples=60, deadline=None)
@given(question=problems())
def test_the_answer_is_valid_and_the_same_in_any_order_of_the_input(strategy: str, question: Problem) -> None:
    answer = ASSIGNORS[strategy].assign(question)
    validate(question, answer, strategy, partial=strategy == "weighted")
    assert ASSIGNORS[strategy].assign(turned(question)) == answer


RACKS = {0: ("r2", "r1"), 1: ("r2",), 2: ("r1", "r2"), 3: ("r1",)}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param("range", "abab", id="any replica in the member's rack"),
        pytest.param("machine-room", "bbaa", id="the preferred leader in the member's rack"),
        pytest.param("server-range", "aabb", id="a broker's range knows no racks"),
        pytest.param("balanced", "aabb", id="nor does balanced"),
    ],
)
def test_racks_count_where_the_strategy_goes_by_them(strategy: str, expected: str) -> None:
    near = {m: Member(m, 1, "", "", rack=rack) for m, rack in {"a": "r1", "b": "r2"}.items()}
    answer = ASSIGNORS[strategy].assign(Problem("t", tuple(range(4)), near, zones=RACKS))
    assert "".join(answer[p] for p in range(4)) == expected


def test_partitions_keep_their_numbers_where_some_are_missing() -> None:
    members = {m: Member(m, 1, "", "") for m in "ab"}
    answer = ASSIGNORS["average-by-circle"].assign(Problem("t", (7, 3, 5), members, owned={3: "b"}))
    assert answer == {3: "a", 5: "b", 7: "a"}
