"""The default strategy against brute force: exact balance first, then the fewest moves; and invalid answers."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_tasks.core.assignors import ASSIGNORS, Problem, is_partial, validate
from coordinator_tasks.core.assignors.balanced import Balanced
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Member


def problem(
    partitions: int,
    members: str,
    owned: Mapping[int, str] | None = None,
    fixed: Mapping[int, str] | None = None,
    loads: Mapping[str, int] | None = None,
) -> Problem:
    found = {m: Member(m, 1, "", "") for m in members}
    return Problem("orders", tuple(range(partitions)), found, owned or {}, fixed or {}, loads or {})


def loads_of(question: Problem, answer: Mapping[int, str]) -> list[int]:
    owners = list(answer.values())
    return sorted((owners.count(m) + question.loads.get(m, 0) for m in question.members), reverse=True)


def moves(question: Problem, answer: Mapping[int, str]) -> int:
    return sum(1 for p, m in question.owned.items() if p not in question.fixed and answer.get(p) != m)


def best(question: Problem) -> tuple[list[int], int]:
    """The decreasingly minimal load vector, and the fewest moves to reach that vector."""
    free = [p for p in question.partitions if p not in question.fixed]
    fixed = {p: m for p, m in question.fixed.items() if p in question.partitions}
    answers = [fixed | dict(zip(free, one, strict=True)) for one in product(question.members, repeat=len(free))]
    return min((loads_of(question, answer), moves(question, answer)) for answer in answers)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(0, 6))
    members = "abc"[: draw(st.integers(1, 3))]
    owners = st.sampled_from("abcx")
    owned = draw(st.dictionaries(st.integers(0, max(0, count - 1)), owners, max_size=count))
    fixed = draw(st.dictionaries(st.integers(0, max(0, count - 1)), owners, max_size=3))
    listed = range(count)
    owned = {p: m for p, m in owned.items() if m in members and p in listed}
    fixed = {p: m for p, m in fixed.items() if p in listed}
    loads = draw(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)))
    return problem(count, members, owned, fixed, loads)


@settings(max_examples=120, deadline=None)
@given(problems())
def test_no_assignment_is_better(question: Problem) -> None:
    answer = Balanced().assign(question)
    validate(question, answer, "balanced")
    assert set(answer) == set(question.partitions)
    assert (loads_of(question, answer), moves(question, answer)) == best(question)


def test_without_members_only_what_is_fixed() -> None:
    assert Balanced().assign(problem(2, "", fixed={0: "x", 7: "y"})) == {0: "x"}


@pytest.mark.parametrize(
    ("answer", "breach"),
    [
        pytest.param(
            {0: "a", 1: "b", 2: "a", 9: "a"}, "partition 9, which the topic does not have", id="no such partition"
        ),
        pytest.param({0: "a", 1: "b", 2: "z"}, "to 'z', which is no live member", id="no such member"),
        pytest.param({0: "b", 1: "b", 2: "a"}, "moved partition 0, which is fixed to 'a'", id="a fixed one moved"),
        pytest.param({1: "b", 2: "a"}, "moved partition 0", id="a fixed one left out"),
        pytest.param({0: "a", 1: "b"}, "left partitions", id="one left out beside live members"),
    ],
)
def test_an_answer_that_is_no_assignment_is_refused(answer: dict[int, str], breach: str) -> None:
    with pytest.raises(Refused, match=breach):
        validate(problem(3, "ab", fixed={0: "a"}), answer, "mine")


def test_only_weighted_may_leave_partitions_without_an_owner() -> None:
    assert [name for name, one in ASSIGNORS.items() if is_partial(one)] == ["weighted"]
    validate(problem(3, "ab"), {0: "a", 1: "b"}, "mine", partial=True)
