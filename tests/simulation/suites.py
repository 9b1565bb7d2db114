"""The suites for changed product code, each within one process (`tests.simulation.forks`)."""

from collections.abc import Callable

from tests.simulation.forks import ROOT, Change, Tests, never_end
from tests.simulation.history import run_seed
from tests.simulation.search import SMALL
from tests.simulation.states import Found
from tests.simulation.sweep import Search

_ELSEWHERE = ("devstack", "launch", "test_weighted.py")
"""Slow tests, and tests that start processes."""
UNIT = tuple(
    str(path)
    for folder in ("coordinator_tasks", "spark_apps")
    for path in sorted(one.relative_to(ROOT) for one in (ROOT / "tests/unit" / folder).rglob("test_*.py"))
    if not set(path.parts) & set(_ELSEWHERE)
)
SEEDS = 1500

Suite = Callable[[Tests, Change], bool]
"""Returns whether the suite notices the applied change."""


def _unit(tests: Tests, change: Change) -> bool:
    return tests.fail(tests.running(change.places))


def _search(_tests: Tests, _change: Change) -> bool:
    never_end()
    try:
        for bounds in SMALL:
            Search(bounds).run()
    except Found:
        return True
    return False


def _simulation(_tests: Tests, _change: Change) -> bool:
    never_end()
    return any(run_seed(seed).broken for seed in range(SEEDS))


SUITES: dict[str, Suite] = {"unit": _unit, "search": _search, "simulation": _simulation}
