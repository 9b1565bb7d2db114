"""The cluster of the pages' tests."""

import pytest

from coordinator_tasks.service.nodes import topics
from tests.fakes.cluster import PERSON, Cluster


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Topic `orders` of four partitions: a runs 0 and 1, b runs 2, and 3 is on its way from a to b."""
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "readers", actor=PERSON)
    cluster.join("a")
    cluster.join("b")
    return cluster
