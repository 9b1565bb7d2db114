"""The embedded ZooKeeper is a real one: data outlives crashes, and an ensemble elects a new leader."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper
from tests.integration.agent_site import wait_for

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


def test_it_starts_whatever_options_of_java_the_shell_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    with EmbeddedZooKeeper(tmp_path) as server:
        assert server.ask("ruok") == "imok"


def test_its_data_are_in_its_folder_whatever_the_folder_is_called(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "Jürgen's #1 folder") as server:
        assert [*server.data_dir.glob("data/version-2/snapshot.*")]


def test_a_paused_server_answers_nothing_until_it_is_resumed(zookeeper: EmbeddedZooKeeper) -> None:
    zookeeper.pause()
    try:
        assert zookeeper.running
        # On a busy machine a thread of it may answer before the signal has stopped it.
        wait_for(lambda: zookeeper.ask("ruok") == "", "it answers nothing", 30.0)
    finally:
        zookeeper.resume()
    assert zookeeper.ask("ruok") == "imok"


def test_an_ensemble_elects_a_new_leader_and_takes_the_old_one_back(tmp_path: Path) -> None:
    with EmbeddedEnsemble(tmp_path) as ensemble, client(ensemble.connect_string) as kazoo:
        kazoo.create("/kept", b"value")
        killed = ensemble.leader()
        killed.kill()
        assert ensemble.leader() is not killed
        assert kazoo.retry(kazoo.get, "/kept")[0] == b"value"
        killed.start()
        assert killed.mode() == "follower"
