"""Changes in ZooKeeper that wake a DAG."""

from coordinator_plugin import changes

from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.ports import Create, Delete
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster


def nobody() -> None:
    """A watcher without a waiting task."""


def test_our_own_transitions_wake_nobody(shop: Cluster) -> None:
    shop.join("a")
    before = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    assert changes.differences(before, changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)) == []


def test_partitions_directives_and_lost_states_wake_the_rebalance(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    before = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    topics.create_partitions(shop.coordinator, "orders", 6, 0)
    directives.isolate(shop.coordinator, "a", by="ada", why="")
    shop.zk.transact([Delete(shop.paths.state("orders")), Create(shop.paths.leave("b"), b"{}")])
    now = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    assert changes.differences(before, now) == [
        "directive a is new",
        "leave of b is new",
        "partitions of orders changed",
        "state of orders is gone",
    ]


def test_the_fleet_is_woken_by_its_own_change_and_by_those_who_left_only(shop: Cluster) -> None:
    scope = changes.Scope.FLEET
    session = shop.server.connect()
    shop.join("a", session)
    before = changes.observe(shop.coordinator, scope, nobody)
    shop.join("b")
    assert changes.differences(before, changes.observe(shop.coordinator, scope, nobody)) == []
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("a", "b")))
    session.close()
    now = changes.observe(shop.coordinator, scope, nobody)
    assert changes.differences(before, now) == ["member a left", "fleet app is new"]
