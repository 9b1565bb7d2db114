"""Which missing consumers one run launches."""

from typing import Any, cast

import pytest
from coordinator_plugin.upkeep import MOST_LAUNCHES, MissingConsumersOperator

from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service import fleet
from tests.fakes.cluster import Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened

AIRFLOWS_LIMIT = 1_024


def launched(shop: Cluster, monkeypatch: pytest.MonkeyPatch, **fleets: int) -> list[str]:
    """The consumers that a run launches of fleets of so many consumers, of which none is there."""
    for app, count in fleets.items():
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", tuple(f"{app}-{number}" for number in range(count))))
    operator = MissingConsumersOperator(task_id="missing")
    monkeypatch.setattr(operator, "coordinator", Opened(shop.coordinator))
    return [one["consumer"] for one in operator.execute(cast(Any, {}))]


def test_all_that_are_missing_are_launched(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched(shop, monkeypatch, a=2, b=1) == ["a-0", "a-1", "b-0"]


def test_a_run_launches_no_more_than_airflow_maps_and_some_of_every_fleet(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = launched(shop, monkeypatch, a=1_000, b=1_000)
    assert len(set(found)) == len(found) == MOST_LAUNCHES
    assert len(found) <= AIRFLOWS_LIMIT
    assert {consumer[0] for consumer in found} == {"a", "b"}
