"""Whoever dies around any operation of any port: nothing lost, never two owners, and Stable again."""

import inspect
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest

from coordinator_tasks.core import ports
from tests.faults import plan
from tests.faults.case import Case, Result
from tests.faults.failpoints import NO_FAILPOINT, OPERATIONS, PHASE, Failpoints, Kill, When, step_of, traced
from tests.faults.roles import AGENT_TIMING, Life
from tests.faults.scenarios import Restless
from tests.faults.servers import Servers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]
RECORDED = 5
PAIRS = 8
SEED = 1
SELDOM_S = 8.0


def operations_of_ports() -> set[str]:
    """Every method and property that a port declares."""
    found = set()
    for name, port in inspect.getmembers(ports, inspect.isclass):
        if getattr(port, "_is_protocol", False) and port.__module__ == ports.__name__:
            found |= {f"{name}.{operation}" for operation in vars(port) if not operation.startswith("_")}
    return found


def test_every_operation_of_every_port_has_a_failpoint_or_a_reason_to_have_none() -> None:
    wrapped = {f"{port}.{operation}" for port, operations in OPERATIONS.items() for operation in operations}
    assert not wrapped & NO_FAILPOINT.keys()
    assert wrapped | NO_FAILPOINT.keys() == operations_of_ports()


def test_a_step_that_is_listed_in_another_phase_is_known_and_a_new_step_is_not() -> None:
    met = ["b/initial/plain.PlainTopic._drop/Client.incremental_unassign", "a/join/plain.PlainTopic._new/Sink.write"]
    assert plan.unlisted([Result((), (), (), 0, 0.0, tuple(met))]) == ["a/join/plain.PlainTopic._new/Sink.write"]


def test_a_line_of_a_trace_that_a_kill_has_cut_off_is_no_point(tmp_path: Path) -> None:
    (tmp_path / PHASE).write_bytes(b"\0")
    for number in range(2):
        with Failpoints("a1", tmp_path).around("Sink.write", f"plain.{number}"):
            pass
        with (tmp_path / "trace-a1").open("a") as trace:
            trace.write("\na/initial/plain.PlainT")
    assert [step_of(point) for point in traced(tmp_path)] == ["a/plain.0/Sink.write", "a/plain.1/Sink.write"]


def shown(what: str, results: Sequence[Result], took_s: float) -> None:
    """One line for the log."""
    slowest = max(one.took_s for one in results)
    repeated = sum(one.repeated for one in results)
    reached = sum(all(one.reached) for one in results)
    print(
        f"\n{what}: {len(results)} cases, {reached} came to all their deaths, {repeated} records repeated by kills, "
        f"{took_s:.0f} s, {took_s / len(results):.2f} s each, the slowest {slowest:.1f} s"
    )


def failures(results: Sequence[Result]) -> list[str]:
    return [f"killed {[str(k) for k in one.kills]}: {one.problems[:5]}" for one in results if not one.ok]


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
    always = sum(listed.values())
    print(f"\n{len(listed)} failpoints: {always} that every run meets, {len(listed) - always} met now and then")


def test_a_death_before_or_after_any_operation_of_any_port_loses_nothing(servers: Servers, tmp_path: Path) -> None:
    began = time.monotonic()
    results = list(plan.run_reaching(servers, tmp_path / "single", plan.one_per_operation()))
    shown("single points", results, time.monotonic() - began)
    assert failures(results) == []
    tried = {(plan.operation_of(kill.point), kill.when) for one in results if all(one.reached) for kill in one.kills}
    points = [point for point, always in plan.listed().items() if always]
    expected = {(plan.operation_of(point), when) for point in points for when in When}
    assert expected - tried == set()


class Seldom(Case):
    """By consumers that look of themselves less often than a join takes."""

    stay_s: ClassVar[float] = 3 * SELDOM_S

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), agent_timing=replace(AGENT_TIMING, poll_s=SELDOM_S))


def test_a_death_at_what_a_short_phase_need_not_have_comes_at_the_first_attempt(
    servers: Servers, tmp_path: Path
) -> None:
    deaths = [(Kill("a/join/view.View._read_names/ZooKeeper.children", when),) for when in When]
    results = list(plan.run(servers, tmp_path / "seldom", deaths, brief=True, usual=Seldom))
    assert failures(results) == []
    assert [one.reached for one in results] == [(True,)] * len(When)


def test_two_deaths_in_one_run_lose_nothing(servers: Servers, tmp_path: Path) -> None:
    began = time.monotonic()
    results = list(plan.run(servers, tmp_path / "pairs", list(islice(plan.pairs(SEED), PAIRS))))
    shown("pairs", results, time.monotonic() - began)
    assert failures(results) == []
    apart = [one for one in results if len({kill.point.split("/")[0] for kill in one.kills}) == 2]
    assert any(all(one.reached) for one in apart), "two processes die in one run"
    assert sum(all(one.reached) for one in results) > PAIRS / 2
