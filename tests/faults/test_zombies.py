"""SIGSTOP for longer than a session, then SIGCONT: the zombie stops by itself, through the fence, and moves no progress."""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.faults.servers import Servers
from tests.faults.zombie import Wake, blind, sleepers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
SLEEPERS = 6


def judged(wakes: Sequence[Wake]) -> None:
    for wake in wakes:
        last = wake.batches[-1] if wake.batches else 0.0
        print(
            f"\nstopped after {wake.stopped_after_s:.2f} s, its last batch after {last:.2f} s: {len(wake.batches)} batches, "
            f"{wake.rows} records, {wake.late_commits} commits under its old epochs"
        )
    assert [wake.problems for wake in wakes if wake.problems] == []


def test_a_zombie_stops_by_itself_and_no_progress_is_undone(servers: Servers, tmp_path: Path) -> None:
    with ThreadPoolExecutor(SLEEPERS) as pool:
        wakes = list(pool.map(lambda one: one.wake(), sleepers(servers, tmp_path / "z", range(SLEEPERS))))
    judged(wakes)


@pytest.mark.clusters
def test_a_zombie_that_looks_at_no_committed_entry_is_refused_by_the_broker(servers: Servers, tmp_path: Path) -> None:
    wake = blind(servers, tmp_path / "z").wake()
    judged([wake])
    assert wake.refused


@pytest.fixture
def own(tmp_path: Path, kafka: EmbeddedKafka) -> tuple[Servers, Callable[[], None], Callable[[], None]]:
    """Servers whose ZooKeeper can be frozen."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        made = Servers(zookeeper.connect_string, kafka.bootstrap_servers, uuid.uuid4().hex[:8])
        yield made, zookeeper.pause, zookeeper.resume
        made.close()


def test_a_zombie_that_cannot_reach_zookeeper_is_stopped_by_the_fence_in_kafka(
    own: tuple[Servers, Callable[[], None], Callable[[], None]], tmp_path: Path
) -> None:
    servers, freeze, thaw = own
    (one,) = sleepers(servers, tmp_path / "z", [0])
    judged([one.wake(freeze, thaw)])
