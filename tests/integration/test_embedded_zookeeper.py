"""The embedded ZooKeeper is a real one: data outlives crashes, and an ensemble elects a new leader."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper

pytestmark = pytest.mark.integration

CONNECT_TIMEOUT_S = 20.0


@contextmanager
def client(connect_string: str) -> Iterator[KazooClient]:
    kazoo = KazooClient(hosts=connect_string)
    kazoo.start(timeout=CONNECT_TIMEOUT_S)
    try:
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()


def test_data_and_port_outlive_a_crash(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server:
        with client(server.connect_string) as kazoo:
            kazoo.create("/kept", b"value")
        address = server.connect_string
        server.kill()
        assert server.ask("ruok") == ""
        server.start()
        assert server.connect_string == address
        with client(address) as kazoo:
            assert kazoo.get("/kept")[0] == b"value"


def test_an_ensemble_elects_a_new_leader_and_takes_the_old_one_back(tmp_path: Path) -> None:
    with EmbeddedEnsemble(tmp_path) as ensemble, client(ensemble.connect_string) as kazoo:
        kazoo.create("/kept", b"value")
        killed = ensemble.leader()
        killed.kill()
        assert ensemble.leader() is not killed
        assert kazoo.retry(kazoo.get, "/kept")[0] == b"value"
        killed.start()
        assert killed.mode() == "follower"
