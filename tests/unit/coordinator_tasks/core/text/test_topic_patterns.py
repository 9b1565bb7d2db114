"""Patterns of topics are matched in bounded time, whoever wrote them.

A registered pattern is matched in milliseconds; an unsupported pattern matches nothing.
"""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text import topic_patterns
from coordinator_tasks.core.text.topic_patterns import (
    MAX_CHARS,
    MAX_PATTERNS,
    any_matches,
    check,
    exactly,
    matches,
    problem,
)

LETTERS = st.sampled_from("ab1-._")
NAMES = st.text(LETTERS, min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("ord.*", True), ("rders.*", False), ("ord.r", False), ("^o[a-r]{5}$|x", False), ("^o[a-s]{5}$|x", True)],
)
def test_a_pattern_matches_a_whole_name(pattern: str, fits: bool) -> None:
    assert problem([pattern]) == ""
    assert matches(pattern, "orders") is fits


@given(st.text(max_size=60), NAMES)
def test_any_text_is_a_pattern_or_refused_with_a_sentence_and_matches_what_it_names(pattern: str, name: str) -> None:
    said = problem([pattern])
    assert not said or "is no pattern of topics: " in said
    assert matches(pattern, name) in (True, False)
    assert matches(name, name)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("(a+)+x", id="a repetition of repetitions"),
        pytest.param("(a|aa|.)*x", id="alternatives that overlap"),
        pytest.param(".*" * 100 + "x", id="many repetitions in a row"),
        pytest.param("(.?){100}x", id="a large bounded repetition"),
        pytest.param("(a?){500}a{500}", id="a larger one"),
        pytest.param("[ab]*a[ab]{200}x", id="an automaton with too many states"),
        pytest.param("(((a{100}){100}){100}){100}", id="repetitions that multiply"),
        pytest.param("((((){100}){100}){100}){100}", id="repetitions of nothing that multiply"),
        pytest.param("(" * 200, id="groups in groups"),
        pytest.param("[" * 200, id="a class that does not end"),
        pytest.param("a" * 100_000 + ".*", id="very long"),
    ],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Python's own engine takes for ever with the first ones."""
    began = time.thread_time()
    assert not matches(pattern, "a" * 249)
    assert problem([pattern]) is not None
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)b", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("a**", "bad repetition operator: **"),
        ("a++", "bad repetition operator: ++"),
        ("*a", "no argument for repetition operator: *"),
        ("(a", "missing ): (a"),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("[b-a]", "invalid character class range: b-a"),
        ("a{x}", "write a repetition as"),
        ("a{,3}", "write a repetition as"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a\\", "trailing \\"),
        ("\ud800.*", "it is no text"),
        (".*" * 200, f"more than {MAX_CHARS} characters"),
        ("(abcdefghij){1000}", "too large"),
    ],
)
def test_what_is_not_supported_is_refused_and_matches_nothing(pattern: str, why: str) -> None:
    with pytest.raises(Refused, match=re.escape(why)):
        check(pattern)
    assert why in problem(["orders", pattern])
    assert not matches(pattern, "a")


def test_only_so_many_patterns_of_a_registration_are_evaluated_and_all_of_its_names() -> None:
    names = [f"eu.topic-{n}" for n in range(500)]
    assert any_matches([*names, *map(exactly, names)], "eu.topic-499")
    assert problem(list(map(exactly, names))) == ""
    patterns = [f"{n}.*" for n in range(100, 100 + MAX_PATTERNS)]
    assert problem(patterns) == ""
    assert not any_matches([*patterns, "orders.*"], "orders-eu")
    assert problem([*patterns, "orders.*"]) == f"only the first {MAX_PATTERNS} patterns of a registration count"


def test_a_registration_is_sorted_into_names_and_patterns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def literal(text: str) -> str | None:
        looked.append(text)
        return text

    monkeypatch.setattr(topic_patterns, "literal", literal)
    registered = [exactly(f"eu.payments.{n}-{'x' * 150}") for n in range(20)]
    for number in range(300):
        assert not any_matches(registered, f"us.payments.{number}-{'x' * 150}")
    assert len(looked) <= len(registered), "for each topic again, the plain loop took seconds for a round"


def test_a_name_that_no_topic_can_have_matches_no_pattern() -> None:
    assert not any_matches(["orders.*"], "orders\ud800")


def test_a_name_that_is_meant_exactly_is_no_other() -> None:
    assert matches("eu.orders", "eu-orders"), "as in any regular expression"
    assert not matches(exactly("eu.orders"), "eu-orders")
    assert matches(exactly("eu.orders"), "eu.orders")
