"""Tests of the places for `tests.simulation.guards`: of each kind in small functions, and in a file of the product."""

import ast
import gc
from textwrap import dedent, indent

import pytest

from coordinator_tasks.core.machine.machine import decide
from tests.simulation import forks, guards
from tests.simulation.places import KINDS, places


def changed(code: str, kind: str) -> list[str]:
    """The body of a function of `x`, with each place of this kind changed."""
    found = []
    whole = f"def f(x):\n{indent(dedent(code), '    ')}"
    for number, place in enumerate(places(ast.parse(whole))):
        if place.kind == kind:
            tree = ast.parse(whole)
            places(tree)[number].change()
            ast.fix_missing_locations(tree)
            compile(tree, "f", "exec")
            found.append("; ".join(ast.unparse(one) for one in tree.body[0].body))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("return a < b", ["return a <= b"]),
        ("return not a", ["return a"]),
        ("return a and b in c", ["return a and b not in c", "return a or b in c", "return not a and b in c"]),
        ("return [a for a in b if c]", ["return [a for a in b if not c]"]),
        ("while a: b()", ["while not a:\n    b()"]),
        ("assert a < b", []),
    ],
)
def test_a_comparison_and_a_condition_become_their_opposite(code: str, found: list[str]) -> None:
    assert changed(code, "condition") == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x.a = 1", ["if False:\n    x.a = 1"]),
        ("x.a: int = 1", ["if False:\n    x.a: int = 1"]),
        ("x[y] = 1", ["if False:\n    x[y] = 1"]),
        ("x += 1", ["if False:\n    x += 1"]),
        ("x = 1", ["if False:\n    x = 1"]),
        ("y = 1", []),
        ("y: int", []),
        ("y, x.a = x", []),
        ("y = 1\ny = 2", ["y = 1; if False:\n    y = 2"]),
        ("y: int = 1\nfor z in x:\n    y = z", ["y: int = 1; for z in x:\n    if False:\n        y = z"]),
        ("for z in x:\n    z = 1", ["for z in x:\n    if False:\n        z = 1"]),
        ("with x as y:\n    z = y\nz = 1", ["with x as y:\n    z = y; if False:\n    z = 1"]),
        ("if x:\n    y = 1\nelse:\n    y = 2", []),
        ("if x:\n    y = 1\ny = 2", []),
        ("def g(y):\n    x = 1\n    y = 1", ["def g(y):\n    x = 1\n    if False:\n        y = 1"]),
        ("return replace(x, a=1, b=2)", ["return replace(x, b=2)", "return replace(x, a=1)"]),
        ("return replace(x, **y)", []),
    ],
)
def test_an_assignment_is_left_out_where_every_name_keeps_a_value(code: str, found: list[str]) -> None:
    assert changed(code, "assignment") == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("return g(a, b, c=d)", ["return g(b, a, c=d)", "return g(a, b)"]),
        ("return g(a, a, b)", ["return g(a, b, a)"]),
        ("return g(a, *b)", ["return g(*b, a)"]),
        ("return g(a, **b)", []),
        ("return max(a, b, key=c)", ["return max(a, b)"]),
        ("log.info(a, b, c=d)\nprint(a, b, sep=c)", []),
        ("assert g(a, b)", []),
        ("return replace(x, a=1)", []),
    ],
)
def test_arguments_are_swapped_or_left_out(code: str, found: list[str]) -> None:
    assert changed(code, "argument") == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("a()\nb()", ["if False:\n    a(); b()", "b(); a()", "a(); if False:\n    b()"]),
        ("a()\na()", ["if False:\n    a(); a()", "a(); if False:\n    a()"]),
        ("a()\nx = 1\nb()", ["if False:\n    a(); x = 1; b()", "a(); x = 1; if False:\n    b()"]),
        ("a()\nlog.info(b)", ["if False:\n    a(); log.info(b)"]),
        ("'''Text.'''\nyield a()\nprint(x)", []),
    ],
)
def test_calls_are_left_out_or_swapped(code: str, found: list[str]) -> None:
    assert changed(code, "order") == found


def test_outside_of_functions_only_conditions_are_places() -> None:
    code = "@g(a, b)\nclass C:\n    a.b = field(c=1)\n    d(e)\n    def f(self, x=g(a, b)): self.x = x\nif a: b()"
    assert [(one.kind, one.text) for one in places(ast.parse(code))] == [
        ("assignment", "self.x = x"),
        ("condition", "if a"),
    ]


def test_every_place_is_a_change_of_one_function() -> None:
    found = [site for site in guards.sites() if site.file.endswith(("partition_text.py", "claims.py", "holdings.py"))]
    assert {site.kind for site in found} == set(KINDS)
    assert all(len(guards.change_of(site).pairs) == 1 for site in found)
    assert "(found[-1] if found else -1) < begin <= end < begin + MAX_PARTITIONS" in {s.changed for s in found}


def test_a_sample_has_so_many_of_every_part_and_kind_and_is_the_beginning_of_a_larger_one() -> None:
    found = guards.sites()
    small, large = guards.sample(found, 2), guards.sample(found, 5)
    strata = {(site.part, site.kind) for site in found}
    assert len(strata) == len(set(guards.PARTS.values())) * len(KINDS)
    assert len(small) == 2 * len(strata)
    assert set(small) < set(large)


def test_a_function_that_another_one_has_made_during_the_import_is_changed_as_well() -> None:
    site = next(s for s in guards.sites() if s.text == "found[key] = read_one(inner, text)")
    change = guards.change_of(site)
    assert len(change.pairs) == 1
    assert {one.rpartition(":")[2] for one in change.places} == {"_mapping", "read"}


def test_what_is_left_out_keeps_what_a_function_takes_from_around_it() -> None:
    site = next(s for s in guards.sites() if s.text == "super().__init__(runner)" and s.kind == "order")
    [(before, after)] = guards.change_of(site).pairs
    assert before.co_freevars == after.co_freevars == ("__class__",)


def test_functions_that_were_frozen_when_the_tests_had_been_collected_are_changed_as_well() -> None:
    gc.freeze()
    try:
        living = forks._living.__wrapped__()
    finally:
        gc.freeze()  # it was frozen before, and stays so for later tests
    assert forks._key(decide.__code__) in living
