"""What a run leaves over."""

from coordinator_plugin.steps import continuation

from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster


def test_two_runs_that_leave_the_same_over_agree_on_the_further_one(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = continuation(shop.coordinator, [])
    assert (left.topics, left.now) == (("orders",), True)
    assert continuation(shop.coordinator, ["orders"]) == left
