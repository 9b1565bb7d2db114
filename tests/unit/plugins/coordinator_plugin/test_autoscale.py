"""The task that looks at the load of the fleets."""

from typing import Any, cast

import pytest
from coordinator_plugin.upkeep import AutoscaleOperator

from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import fleet
from tests.fakes.cluster import Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened


class Task:
    dag_id, run_id, task_id, try_number = "autoscale", "run", "look", 1


CONTEXT = cast(Any, {"ti": Task(), "dag_run": object(), "params": {}})


def test_each_fleet_has_a_line_and_what_cannot_be_read_another(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = AutoscaleOperator(task_id="look")
    monkeypatch.setattr(operator, "coordinator", Opened(shop.coordinator))
    said: list[str] = []
    monkeypatch.setattr(operator, "say", said.extend)
    assert operator.execute(CONTEXT) == []
    assert said == ["no fleet has limits of growth"]
    for app in ("billing", "web"):
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", (f"{app}-1",)))
        autoscale.set_growth(shop.coordinator, app, Limits())
    shop.zk.transact([SetData(shop.paths.growth("web"), b"{")])
    said.clear()
    line = "billing: hold: nothing is decided: billing-1 is wanted and not there yet"
    assert operator.execute(CONTEXT) == [line]
    assert said[0] == line
    assert said[1].startswith("the fleet web is left as it is: ")
