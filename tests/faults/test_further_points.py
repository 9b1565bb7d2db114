"""Deaths around the operations that a join and a leave do not go through: nothing lost, never two owners, and Stable again."""

import itertools
import time
from pathlib import Path

import pytest

from tests.faults import plan
from tests.faults.case import Result
from tests.faults.failpoints import CLIENT, OPERATIONS, TRANSACTIONS, When
from tests.faults.servers import Servers
from tests.faults.test_failpoints import failures, shown
from tests.faults.upheavals import SCENARIOS

ATTEMPTS = 10
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


def all_points() -> dict[str, bool]:
    """Of both lists."""
    return plan.listed() | {one: always for points in plan.further().values() for one, always in points.items()}


def test_every_operation_that_has_a_failpoint_is_met_by_some_scenario() -> None:
    wrapped = {f"{port}.{operation}" for port, operations in OPERATIONS.items() for operation in operations}
    wrapped |= {f"Client.{operation}" for operation in CLIENT}
    met = {point.rsplit("/", 1)[1].replace(TRANSACTIONS, "GroupOffsets") for point in all_points()}
    assert wrapped - met == set()


def test_a_point_stands_in_one_list_only_and_each_scenario_has_some() -> None:
    lists = [plan.listed(), *plan.further().values()]
    names = [point for points in lists for point in points]
    assert len(names) == len(set(names))
    assert list(plan.further()) == list(SCENARIOS)


def test_a_sample_has_every_operation_of_the_other_scenarios_once_at_least() -> None:
    operations = {kill.point.rsplit("/", 1)[1] for (kill,) in plan.further_singles()}
    assert {kill.point.rsplit("/", 1)[1] for (kill,) in plan.sample()} == operations
    assert len(set(plan.sample())) == len(operations)


@pytest.mark.clusters
def test_a_recorded_run_of_every_scenario_meets_only_listed_operations_and_nothing_is_wrong(
    servers: Servers, tmp_path: Path
) -> None:
    results: list[Result] = []
    missing = {kind: {p for p, always in points.items() if always} for kind, points in plan.further().items()}
    for attempt in range(ATTEMPTS):  # on a busy machine a scenario may come to its end by another way
        kinds = [kind for kind, points in missing.items() if points]
        found = plan.recorded(servers, tmp_path / f"further-{attempt}", kinds)
        results += found
        for kind, result in zip(kinds, found, strict=True):
            missing[kind] -= set(result.points)
        if failures(found):
            break
    assert failures(results) == []
    assert plan.unlisted(results) == [], f"add them to {plan.FURTHER.name}"
    never = sorted(itertools.chain.from_iterable(missing.values()))
    assert never == [], f"the list has points that no run meets: correct {plan.FURTHER.name}"
    always = len(plan.further_singles()) // len(When)
    print(f"\n{len(SCENARIOS)} further scenarios with {always} more failpoints that every run meets")


@pytest.mark.clusters
def test_a_death_around_operations_of_the_other_scenarios_loses_nothing(servers: Servers, tmp_path: Path) -> None:
    began = time.monotonic()
    results = list(plan.run_reaching(servers, tmp_path / "sample", plan.sample()))
    shown("further points", results, time.monotonic() - began)
    assert failures(results) == []
    tried = {one.kills for one in results if all(one.reached)}
    assert set(plan.sample()) - tried == set()
