"""A site's own rules for upgrades: what they answer, and what becomes of everything they can do wrong."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from coordinator_tasks.core.errors import BadRule
from coordinator_tasks.core.fleet.upgrade_rule import Facts
from coordinator_tasks.site_rules import rules_of

FACTS = Facts("billing", "v2", 50, 60.0, True)


def raises(_: Facts) -> str:
    raise KeyError("price")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of the site that can be imported."""
    made = ModuleType("shop_rules")
    monkeypatch.setitem(sys.modules, "shop_rules", made)
    return made


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda _: "", ""),
        (lambda _: None, ""),
        (lambda _: True, ""),
        (lambda _: False, "the rule 'mine' says no"),
        (lambda facts: f"{facts.percent} %\n differ ", "50 % differ"),
        (lambda _: "x" * 9_000, "x" * 500),
    ],
    ids=["empty", "None", "True", "False", "a text, in one line", "a long text, cut"],
)
def test_what_a_rule_answers(module: ModuleType, rule: Callable[[Facts], Any], said: str) -> None:
    module.__dict__["mine"] = rule
    assert rules_of({"mine": "shop_rules:mine"})["mine"]()(FACTS) == said


@pytest.mark.parametrize(
    ("source", "rule", "says"),
    [
        ("shop_rules:mine", raises, "failed with KeyError: 'price'"),
        ("shop_rules:mine", lambda _: 7, "answered with int; it has to return a text, None or a boolean"),
    ],
    ids=["it raises", "a number"],
)
def test_a_rule_that_cannot_say_is_refused(module: ModuleType, source: str, rule: object, says: str) -> None:
    module.__dict__["mine"] = rule
    with pytest.raises(BadRule, match=says) as found:
        rules_of({"mine": source})["mine"]()(FACTS)
    assert "\n" not in str(found.value)
    assert "continue the upgrade, or roll it back" in str(found.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("shop_rules:mine", "is no callable but int"),
        ("nosuch_rules:mine", "cannot be imported: ModuleNotFoundError: No module named 'nosuch_rules'"),
    ],
    ids=["no callable", "no module"],
)
def test_a_rule_that_cannot_be_imported_is_refused_first(module: ModuleType, source: str, says: str) -> None:
    module.__dict__["mine"] = 7
    with pytest.raises(BadRule, match=says) as found:
        rules_of({"mine": source})["mine"]()
    assert "\n" not in str(found.value)
