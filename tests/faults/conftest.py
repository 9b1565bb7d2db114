"""The servers of the cases, over the real ones that all tests share."""

import uuid
from collections.abc import Iterator

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.faults.servers import Servers


@pytest.fixture(scope="package")
def servers(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Servers]:
    """One topic with records flowing, on the shared servers; they flow no longer when these tests are over."""
    made = Servers(zookeeper.connect_string, kafka.bootstrap_servers, uuid.uuid4().hex[:8])
    yield made
    made.close()
