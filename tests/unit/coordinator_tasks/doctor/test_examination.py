"""Which further DAGs of Airflow a cluster needs, by its settings and its fleets."""

import pytest

from coordinator_tasks.core.budget import Budget
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.names import Paths
from coordinator_tasks.doctor import dags_on_demand, examination
from coordinator_tasks.settings import Settings
from tests.fakes.zookeeper import FakeZooKeeperServer


@pytest.mark.parametrize("budget", [Budget(), Budget(moves=5)])
@pytest.mark.parametrize("grows", [True, False])
def test_a_budget_needs_its_question_and_limits_of_growth_need_their_look(
    monkeypatch: pytest.MonkeyPatch, budget: Budget, grows: bool
) -> None:
    server = FakeZooKeeperServer()
    if grows:
        server.connect().ensure(f"{Paths('main').growths}/billing")
    monkeypatch.setattr(examination, "connect_zookeeper", lambda _: server.connect())
    settings = Settings("main", "zk:2181", {"bootstrap.servers": "broker:9092"}, budget=budget)
    wanted = [*(["approve_plan"] if budget.is_set else []), *(["autoscale"] if grows else [])]
    assert dags_on_demand(settings) == wanted
    former = server.connect()
    server.stop()
    monkeypatch.setattr(examination, "connect_zookeeper", lambda _: former)
    assert dags_on_demand(settings) == wanted[: budget.is_set], "the checks of ZooKeeper say that it is away"


def test_without_zookeeper_the_settings_alone_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Settings) -> None:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(examination, "connect_zookeeper", refuse)
    settings = Settings("main", "zk:2181", {"bootstrap.servers": "broker:9092"}, budget=Budget(moves=5))
    assert dags_on_demand(settings) == ["approve_plan"]
