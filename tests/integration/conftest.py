"""A cluster on the shared servers: for each test that asks for one, and for each file with an Airflow."""

from collections.abc import Iterator

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.integration.agent_site import Site
from tests.integration.airflow_site import cluster_of
from tests.integration.real_site import Managed
from tests.receiver import Receiver


@pytest.fixture
def partitions(request: pytest.FixtureRequest) -> int:
    """Partitions of the topic; a file with another number says so by the marker."""
    marker = request.node.get_closest_marker("partitions")
    return int(marker.args[0]) if marker is not None else 4


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, partitions: int) -> Iterator[Site]:
    """A cluster without a coordinator."""
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions)
    yield made
    made.close()


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, partitions: int) -> Iterator[Managed]:
    """A cluster with a managed topic; a test runs the coordinator by `looping`."""
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions))
    yield made
    made.close()


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    """The settings of an Airflow's cluster; a file may have a fixture of its own."""
    return cluster_of(zookeeper, kafka)


@pytest.fixture(scope="module")
def coordinator(settings: Settings) -> Iterator[Coordinator]:
    with open_coordinator(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A chat for each file with an Airflow that tells one."""
    made = Receiver()
    yield made
    made.close()
