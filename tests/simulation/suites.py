"""The suites that are asked about changed product code, each within one process (`tests.simulation.forks`)."""

from collections.abc import Callable

from tests.simulation.forks import Change, Tests
from tests.simulation.history import run_seed
from tests.simulation.search import SMALL
from tests.simulation.states import Found
from tests.simulation.sweep import Search

_QUICK = (
    *("agent_agent", "agent_delivery", "agent_edges", "agent_holder", "agent_moves", "balanced", "batches"),
    *("broker_fence", "callbacks", "cli", "codecs", "confirm", "decide_is_total", "delivery_walk", "directives"),
    *("draft", "edges", "explain", "fence", "fleet", "history", "holding", "incremental", "kafka_adapter", "machine"),
    *(
        "names",
        "one_topic",
        "plain",
        "plan_size",
        "positions",
        "presence",
        "processes",
        "query_start",
        "record_sizes",
        "recovery",
    ),
    *("registries", "registry", "runner", "runner_edges", "services", "session", "settings", "sinks"),
    *("site_strategies", "stable", "status_client", "status_server", "topics", "weighted_plans", "wishes"),
)
UNIT = (*(f"tests/unit/test_{name}.py" for name in _QUICK), "tests/scenarios/test_scenarios.py")
MACHINE = ("tests/unit/test_protocol_walk.py", "tests/simulation/test_machine.py")
SEEDS = 1500

Suite = Callable[[Tests, Change], bool]
"""Whether it notices the change, which is there already."""


def _unit(tests: Tests, change: Change) -> bool:
    return tests.fail(tests.running(change.places))


def _machine(tests: Tests, _change: Change) -> bool:
    return tests.fail(tests.of(MACHINE))


def _search(_tests: Tests, _change: Change) -> bool:
    try:
        for bounds in SMALL:
            Search(bounds).run()
    except Found:
        return True
    return False


def _simulation(_tests: Tests, _change: Change) -> bool:
    return histories(SEEDS)


def histories(count: int) -> bool:
    """Whether one of the first seeds breaks a rule."""
    return any(run_seed(seed).broken for seed in range(count))


SUITES: dict[str, Suite] = {"unit": _unit, "machine": _machine, "search": _search, "simulation": _simulation}
