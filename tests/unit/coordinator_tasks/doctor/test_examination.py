"""Installed packages, and the expectations of Airflow: a cluster's DAGs and last changes."""

import pytest

from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.names import Paths
from coordinator_tasks.doctor import CheckResult, airflow_site, examination
from coordinator_tasks.installed import Installed
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.settings import Settings
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.zookeeper import FakeZooKeeperServer


@pytest.mark.parametrize("budget", [Budget(), Budget(moves=5)])
@pytest.mark.parametrize("grows", [True, False])
def test_a_budget_and_limits_of_growth_need_dags(monkeypatch: pytest.MonkeyPatch, budget: Budget, grows: bool) -> None:
    server = FakeZooKeeperServer()
    if grows:
        server.connect().ensure(f"{Paths('main').growths}/billing")
    monkeypatch.setattr(examination, "connect_zookeeper", lambda _: server.connect())
    settings = Settings("main", "zk:2181", {"bootstrap.servers": "broker:9092"}, budget=budget)
    wanted = [*(["approve_plan"] if budget.is_set else []), *(["autoscale"] if grows else [])]
    assert airflow_site(settings).needed == wanted
    former = server.connect()
    server.stop()
    monkeypatch.setattr(examination, "connect_zookeeper", lambda _: former)
    assert airflow_site(settings).needed == wanted[: budget.is_set], "the checks of ZooKeeper say that it is away"


def test_the_last_change_of_each_scope_is_zookeepers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 1)
    monkeypatch.setattr(examination, "connect_zookeeper", lambda _: cluster.server.connect())
    settings = Settings(cluster.name, "zk:2181", {"bootstrap.servers": "broker:9092"})
    assert airflow_site(settings).changed == {}
    topics.add_topic(cluster.coordinator, "orders", "readers", actor=PERSON)
    first = cluster.clock.now()
    cluster.clock.advance(60)
    fleet.set_fleet(cluster.coordinator, Fleet("app", "app.py", ("c1",)))
    assert airflow_site(settings).changed == {"topics": first, "fleet": first + 60}
    cluster.join("a")
    directives.drain(cluster.coordinator, "a", "ada", "disk")
    assert airflow_site(settings).changed == {"topics": first + 60, "fleet": first + 60}


@pytest.mark.parametrize(
    ("packages", "result"),
    [
        ({"pyspark": "4.3.0", "kazoo": "2.10"}, CheckResult.OK),
        ({"pyspark": "3.4.4", "apache-airflow": "3.3.2"}, CheckResult.FAILED),
        ({"pyspark": "3.5.0.dev1"}, CheckResult.OK),
        ({"pyspark": "unknown"}, CheckResult.FAILED),
    ],
)
def test_a_package_that_is_too_old_for_us_is_named(packages: dict[str, str], result: CheckResult) -> None:
    (one,) = examination._clients(Installed("0.3.0", "3.11", packages, 1, ()))
    assert one.result is result
    if result is CheckResult.FAILED:
        name = "pyspark" if "pyspark" in packages else "apache-airflow"
        assert f"{name} {packages[name]} cannot run what we need" in one.says
        assert f"install {name} {examination.OLDEST[name]} or newer" in one.mend
