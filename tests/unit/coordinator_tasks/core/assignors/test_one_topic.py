"""Group strategies as strategies of one topic for the coordinator."""

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from coordinator_tasks.core import assignors
from coordinator_tasks.core.assignors import ASSIGNORS, Problem, validate
from coordinator_tasks.core.assignors.one_topic import OneTopic
from coordinator_tasks.core.assignors.topic_strategies import STATELESS
from coordinator_tasks.core.assignors.weighted.strategy import Weighted
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


def hidden(strategy: object) -> set[str]:
    """Attributes of the group strategy for the coordinator, not passed on by `OneTopic`."""
    protocols = [found for found in vars(assignors).values() if getattr(found, "_is_protocol", False)]
    asked = {name for protocol in protocols for name in vars(protocol) if not name.startswith("_")}
    return {name for name in asked if hasattr(strategy, name) and not hasattr(OneTopic, name)}


@pytest.mark.parametrize("strategy", sorted(STATELESS))
def test_nothing_that_a_group_strategy_offers_is_hidden(strategy: str) -> None:
    assert not hidden(STATELESS[strategy]), "let `OneTopic` pass these on to its strategy"


def test_a_member_that_is_not_passed_on_is_named() -> None:
    assert hidden(Weighted()) == {"partial", "check", "measure", "patience_s", "explainer"}


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
