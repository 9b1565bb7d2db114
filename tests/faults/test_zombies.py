"""SIGSTOP for longer than a session, then SIGCONT: the zombie stops by itself, through the fence, and moves no progress."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import SECOND
from tests.faults.servers import Servers
from tests.faults.zombie import Zombie

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
SLEEPERS = 6


def test_a_zombie_stops_by_itself_and_no_progress_is_undone(servers: Servers, tmp_path: Path) -> None:
    zombies = [Zombie(servers, f"z-{number}", tmp_path / str(number)) for number in range(SLEEPERS)]
    with ThreadPoolExecutor(SLEEPERS) as pool:
        assert list(pool.map(Zombie.wake, zombies)) == [[]] * SLEEPERS


@pytest.mark.clusters
def test_a_zombie_that_looks_at_no_committed_entry_is_refused_by_the_broker(servers: Servers, tmp_path: Path) -> None:
    zombie = Zombie(servers, "z-blind", tmp_path / "blind", fence=TRANSACTIONAL_FENCE, blind=(SECOND,))
    assert zombie.wake() == []
    assert any("Kafka refuses its commit" in text for text in zombie.reports)


def test_a_zombie_that_cannot_reach_zookeeper_is_stopped_by_the_fence_in_kafka(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        servers = Servers(zookeeper.connect_string, kafka.bootstrap_servers, uuid.uuid4().hex[:8])
        assert Zombie(servers, "z", tmp_path / "z").wake(zookeeper.pause, zookeeper.resume) == []
        servers.close()
