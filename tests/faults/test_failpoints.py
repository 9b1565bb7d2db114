"""Whoever dies around any operation of any port: nothing lost, never two owners, and Stable again."""

import inspect
import itertools
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from coordinator_tasks.core import ports
from tests.faults import plan
from tests.faults.case import Result
from tests.faults.failpoints import CLIENT, NO_FAILPOINT, OPERATIONS, TRANSACTIONS, When
from tests.faults.scenarios import SCENARIOS, Restless
from tests.faults.servers import Servers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]
RECORDED = 5
PAIRS = 8
SEED = 1
CHUNKS = 10
MORE_PAIRS = 50


def operations_of_ports() -> set[str]:
    """Every method and property that a port declares."""
    found = set()
    for name, port in inspect.getmembers(ports, inspect.isclass):
        if getattr(port, "_is_protocol", False) and port.__module__ == ports.__name__:
            found |= {f"{name}.{operation}" for operation in vars(port) if not operation.startswith("_")}
    return found


def test_every_operation_of_every_port_has_a_failpoint_or_a_reason_to_have_none_and_some_scenario_meets_it() -> None:
    wrapped = {f"{port}.{operation}" for port, operations in OPERATIONS.items() for operation in operations}
    assert not wrapped & NO_FAILPOINT.keys()
    assert wrapped | NO_FAILPOINT.keys() == operations_of_ports()
    points = itertools.chain(plan.listed(), *plan.further().values())
    met = {point.rsplit("/", 1)[1].replace(TRANSACTIONS, "GroupOffsets") for point in points}
    assert wrapped | {f"Client.{operation}" for operation in CLIENT} <= met


def test_a_point_stands_in_one_list_only_and_each_scenario_has_some() -> None:
    names = [point for points in (plan.listed(), *plan.further().values()) for point in points]
    assert len(names) == len(set(names))
    assert list(plan.further()) == list(SCENARIOS)


def failures(results: Iterable[Result]) -> list[str]:
    return [f"killed {[str(k) for k in one.kills]}: {one.problems[:5]}" for one in results if one.problems]


def test_a_recorded_run_meets_only_listed_operations_and_nothing_is_wrong_when_nobody_dies(
    servers: Servers, tmp_path: Path
) -> None:
    listed, results = plan.listed(), list[Result]()
    never = {point for point, always in listed.items() if always}
    for attempt in range(plan.ATTEMPTS):  # a busy machine may take another way through a phase than a quiet one
        if never:
            results += plan.run(servers, tmp_path / f"recorded-{attempt}", [()] * RECORDED)
            results += plan.run(servers, tmp_path / f"restless-{attempt}", [()], usual=Restless)
            never -= {point for one in results for point in one.points}
    assert failures(results) == []
    assert sum(one.repeated for one in results) == 0
    assert plan.unlisted(results) == [], (
        f"add them to {plan.LIST.name}, with a question mark if they are met only now and then"
    )
    assert sorted(never) == [], f"the list has points that no run meets: correct {plan.LIST.name}"


def test_a_death_before_or_after_any_operation_of_any_port_loses_nothing(servers: Servers, tmp_path: Path) -> None:
    results = list(plan.run_reaching(servers, tmp_path / "single", plan.one_per_operation()))
    assert failures(results) == []
    tried = {(plan.operation_of(kill.point), kill.when) for one in results if all(one.reached) for kill in one.kills}
    points = [point for point, always in plan.listed().items() if always]
    expected = {(plan.operation_of(point), when) for point in points for when in When}
    assert expected - tried == set()


def test_two_deaths_in_one_run_lose_nothing(servers: Servers, tmp_path: Path) -> None:
    results = list(plan.run(servers, tmp_path / "pairs", list(islice(plan.pairs(SEED), PAIRS))))
    assert failures(results) == []
    apart = [one for one in results if len({kill.point.split("/")[0] for kill in one.kills}) == 2]
    assert any(all(one.reached) for one in apart), "two processes die in one run"
    assert sum(all(one.reached) for one in results) > PAIRS / 2


# The long part -----------------------------------------------------------------------------------------------------------


@pytest.mark.clusters
def test_a_recorded_run_of_every_scenario_meets_only_listed_operations_and_nothing_is_wrong(
    servers: Servers, tmp_path: Path
) -> None:
    results: list[Result] = []
    missing = {kind: {p for p, always in points.items() if always} for kind, points in plan.further().items()}
    for attempt in range(plan.ATTEMPTS):  # on a busy machine a scenario may come to its end by another way
        for kind in [kind for kind, points in missing.items() if points]:
            (result,) = plan.run(servers, tmp_path / f"{kind.__name__}-{attempt}", [()], usual=kind)
            results.append(result)
            missing[kind] -= set(result.points)
        if failures(results):
            break
    assert failures(results) == []
    assert plan.unlisted(results) == [], f"add them to {plan.FURTHER.name}"
    never = sorted(itertools.chain.from_iterable(missing.values()))
    assert never == [], f"the list has points that no run meets: correct {plan.FURTHER.name}"


@pytest.mark.clusters
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_death_around_any_point_of_any_scenario_loses_nothing(servers: Servers, tmp_path: Path, chunk: int) -> None:
    assert failures(plan.run_reaching(servers, tmp_path / f"points-{chunk}", plan.singles()[chunk::CHUNKS])) == []


@pytest.mark.clusters
def test_a_death_at_a_rare_point_loses_nothing_where_it_comes(servers: Servers, tmp_path: Path) -> None:
    assert failures(plan.run(servers, tmp_path / "rare", plan.rare())) == []


@pytest.mark.clusters
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 1 + CHUNKS))
def test_many_pairs_of_deaths_lose_nothing(servers: Servers, tmp_path: Path, seed: int) -> None:
    assert failures(plan.run(servers, tmp_path / f"pairs-{seed}", list(islice(plan.pairs(seed), MORE_PAIRS)))) == []
