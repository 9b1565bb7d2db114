"""Brokers and ZooKeepers of several versions: a join by hand-offs while records flow, with both fences."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.adapters.server_versions import kafka_versions, zookeeper_versions
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.clusters import server_versions
from tests.integration.agent_site import Site
from tests.integration.real_site import Managed

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(900)]
RECORDS = 100


def rebalance(zookeeper: str, kafka: str, fence: str) -> None:
    """Two consumers share a topic; a third process takes over what the first gives away; nothing is lost or doubled."""
    site = Site(zookeeper, kafka)
    settings = replace(site.settings, fence=fence) if fence else site.settings
    managed = Managed(site)
    try:
        with managed.looping(settings=settings):
            managed.join("a", settings)
            managed.stable("a")
            site.produce(RECORDS)
            managed.join("b", settings)
            managed.stable("ab")
            site.produce(RECORDS, RECORDS)
            managed.consumed(2 * RECORDS)
        assert managed.node().assignments.keys() == set(range(site.partitions))
        managed.judge(2 * RECORDS)
    finally:
        managed.close()


@pytest.fixture(params=server_versions.KAFKA)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with server_versions.kafka_of(request.param), EmbeddedKafka(tmp_path / "kafka") as server:
        told = kafka_versions([server.bootstrap_servers], {})
        assert told == {server.bootstrap_servers: request.param.rpartition(".")[0]}, "what the command doctor shows"
        yield server.bootstrap_servers


@pytest.fixture(params=server_versions.ZOOKEEPER)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with server_versions.zookeeper_of(request.param), EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        yield server


@pytest.mark.parametrize("fence", ["", TRANSACTIONAL_FENCE], ids=["token", "transactional"])
def test_a_rebalance_on_a_broker_of_this_version(zookeeper: EmbeddedZooKeeper, broker: str, fence: str) -> None:
    rebalance(zookeeper.connect_string, broker, fence)


def test_a_rebalance_on_a_zookeeper_of_this_version(store: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> None:
    (said,) = zookeeper_versions(store.connect_string, ZooKeeperAccess()).values()
    assert said in server_versions.ZOOKEEPER
    rebalance(store.connect_string, kafka.bootstrap_servers, "")
