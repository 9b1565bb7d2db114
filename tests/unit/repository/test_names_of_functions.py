"""The files of the tests that name functions of the product follow each change of a name."""

import tomllib

from tests.faults import plan
from tests.simulation.forks import ROOT
from tests.simulation.mutants import MUTANTS, Mutant, functions
from tests.simulation.mutation import change_of

FILE = ROOT / "tests/simulation/promises.toml"
PROMISES: dict[str, dict[str, list[str]]] = tomllib.loads(FILE.read_text())
DEFECTS = "Defects of other systems"


def test_every_mutant_changes_a_line_of_a_function() -> None:
    assert [problem for mutant in MUTANTS if (problem := _out_of_date(mutant))] == []


def _out_of_date(mutant: Mutant) -> str:
    try:
        changed = change_of(mutant).pairs
    except ValueError as error:
        return str(error)
    return "" if len(changed) == 1 else f"{mutant.function}: {len(changed)} functions change"


def test_every_mutant_stands_under_a_sentence_of_the_protocol() -> None:
    listed = [rule for title, rows in PROMISES.items() if title != DEFECTS for rules in rows.values() for rule in rules]
    assert sorted(listed) == sorted(mutant.rule for mutant in MUTANTS)


def test_every_defect_that_others_had_is_put_back_by_mutants_that_are_there() -> None:
    listed = {rule for rules in PROMISES[DEFECTS].values() for rule in rules}
    assert listed <= {mutant.rule for mutant in MUTANTS}


def test_every_point_of_death_is_in_a_function() -> None:
    points = [*plan.listed(), *(point for listed in plan.further().values() for point in listed)]
    steps = {point.split("/")[-2] for point in points}
    assert sorted(step for step in steps if "." in step and step not in functions()) == []
