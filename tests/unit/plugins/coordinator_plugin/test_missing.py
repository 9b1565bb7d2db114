"""Runs by fleet, and the missing consumers that a run launches."""

from types import SimpleNamespace
from typing import Any

import pytest
from coordinator_plugin import fleet_runs
from coordinator_plugin.fleet_runs import EVERY_S, FleetRunsOperator
from coordinator_plugin.upkeep import MOST_LAUNCHES, MissingConsumersOperator

from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service.nodes import fleet
from tests.fakes.cluster import Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened

AIRFLOWS_LIMIT = 1_024


class Runs:
    """A task instance in a run of `consumers`; `active`: the runs that have not ended."""

    dag_id = "consumers"

    def __init__(self, *active: str, run_id: str = "") -> None:
        self.active, self.run_id = set(active), run_id

    def get_dr_count(self, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == ("consumers", ["queued", "running"])
        assert sum(len(one) + 10 for one in run_ids) < 16_000, "they stand in an address"
        return len(self.active.intersection(run_ids))


def context(app: str, ti: Runs) -> Any:
    return {"params": {"app": app}, "ti": ti}


def launched(shop: Cluster, monkeypatch: pytest.MonkeyPatch, app: str, ti: Runs | None = None) -> list[str]:
    """The consumers launched by a run for this fleet."""
    operator = MissingConsumersOperator(task_id="missing")
    monkeypatch.setattr(operator, "coordinator", Opened(shop.coordinator))
    return [one["consumer"] for one in operator.execute(context(app, ti or Runs()))]


def wanted(shop: Cluster, **fleets: int) -> None:
    """Fleets of so many consumers, all missing."""
    for app, count in fleets.items():
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", tuple(f"{app}-{number}" for number in range(count))))


def started(shop: Cluster, monkeypatch: pytest.MonkeyPatch, ti: Runs, app: str = "") -> dict[str, str]:
    """Fleet -> id of the run started for the fleet."""
    operator = FleetRunsOperator(task_id="fleets")
    monkeypatch.setattr(operator, "coordinator", Opened(shop.coordinator))
    return {one["conf"]["app"]: one["trigger_run_id"] for one in operator.execute(context(app, ti))}


def test_a_slow_run_delays_no_other_fleet_and_gets_no_second(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, slow=2, quick=1)
    now = SimpleNamespace(time=lambda: 1_000_000_000.0)
    monkeypatch.setattr(fleet_runs, "time", now)
    first = started(shop, monkeypatch, Runs())
    assert first.keys() == {"slow", "quick"}
    now.time = lambda: 1_000_000_000.0 + 11 * 60
    assert started(shop, monkeypatch, Runs(first["slow"])).keys() == {"quick"}
    now.time = lambda: 1_000_000_000.0 - EVERY_S
    assert started(shop, monkeypatch, Runs(first["slow"])).keys() == {"quick"}, "by a clock that is behind"


def test_of_two_runs_for_a_fleet_the_earlier_one_launches(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, a=1)
    now = SimpleNamespace(time=lambda: 1_000_000_000.0)
    monkeypatch.setattr(fleet_runs, "time", now)
    one = started(shop, monkeypatch, Runs())["a"]
    now.time = lambda: 1_000_000_000.0 + EVERY_S
    two = started(shop, monkeypatch, Runs())["a"]
    assert launched(shop, monkeypatch, "a", Runs(one, two, run_id=one)) == ["a-0"]
    assert launched(shop, monkeypatch, "a", Runs(one, two, run_id=two)) == []
    assert launched(shop, monkeypatch, "a", Runs(two, run_id=two)) == ["a-0"]


def test_a_run_launches_for_its_fleet_alone_or_nothing_at_all(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, a=2, b=1)
    assert launched(shop, monkeypatch, "a") == ["a-0", "a-1"]
    assert launched(shop, monkeypatch, "") == []
    assert started(shop, monkeypatch, Runs(), "a") == {}


def test_a_run_launches_no_more_than_airflow_maps(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, a=AIRFLOWS_LIMIT + 1)
    found = launched(shop, monkeypatch, "a")
    assert len(set(found)) == len(found) == MOST_LAUNCHES
    assert len(found) <= AIRFLOWS_LIMIT
