"""Fixtures of the tests of the Airflow plugin: a cluster, and a triggerer with counted sessions."""

from contextlib import nullcontext
from typing import Any

import pytest
from coordinator_plugin import sessions, triggers, watcher
from coordinator_plugin.hook import CoordinatorHook

from coordinator_tasks.core.model import ConsumerStatus
from coordinator_tasks.service.nodes import topics
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster that every task opens."""
    cluster = Cluster()
    monkeypatch.setattr(CoordinatorHook, "open", lambda _: nullcontext(cluster.coordinator))
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "g", actor=PERSON)
    # The interfaces answer: no partition runs yet.
    for consumer in ("a", "b"):
        cluster.statuses.answers[consumer] = lambda member: ConsumerStatus(
            member.consumer, cluster.name, member.incarnation, "boot", "ok"
        )
    return cluster


@pytest.fixture
def borrowed(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> Opened:
    opened = Opened(shop.coordinator)
    shared = sessions.Sessions(linger_s=0.01)

    async def borrow(_cluster: str) -> Any:
        return shared.borrow("main", "main", opened)

    for module in (triggers, watcher):
        monkeypatch.setattr(module, "borrowed", borrow)
        monkeypatch.setattr(module, "RECONNECT_S", 0.05)
    return opened
