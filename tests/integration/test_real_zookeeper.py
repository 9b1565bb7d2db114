"""ZooKeeper emptied, restored and replaced under a running cluster: consumers read on, and no partition has two owners."""

import shutil
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordinator_tasks.cli import main
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import MoveKind
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes.directives import read_directive
from coordinator_tasks.wiring import open_coordinator, open_zookeeper
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration
ALL = range(4)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path, tick_time_ms=1000) as server:  # a server grants no session more than 20 ticks
        yield server


@pytest.fixture
def managed(own: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(own.connect_string, kafka.bootstrap_servers, len(ALL)))
    yield made
    made.close()


def store(own: EmbeddedZooKeeper) -> Path:
    """Where the server keeps everything."""
    return own.data_dir / "data" / "version-2"


def sessions(managed: Managed) -> dict[str, int]:
    """The session that each registered consumer's node belongs to."""
    zk, paths = managed.site.zk, managed.site.paths
    found = {name: zk.find(paths.member(name)) for name in managed.consumers}
    return {name: node.stat.ephemeral_owner for name, node in found.items() if node is not None}


def await_new_sessions(managed: Managed, before: dict[str, int]) -> None:
    def all_new() -> bool:
        try:
            now = sessions(managed)
        except StoreUnavailable:
            return False
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    wait_for(all_new, "every consumer has registered in a new session", LIMIT_S)


def test_an_emptied_zookeeper_turns_no_epoch_back_and_disturbs_nobody(own: EmbeddedZooKeeper, managed: Managed) -> None:
    both = managed.join("a"), managed.join("b")
    with managed.looping():
        managed.stable("ab")
    old = managed.node()
    traffic = Traffic(managed.site)
    managed.ledger.grown(ALL, "records flow")
    before = sessions(managed)
    own.kill()
    shutil.rmtree(store(own))
    own.start()
    managed.ledger.grown(ALL, "everything goes on while nothing is known")
    await_new_sessions(managed, before)
    for one in both:
        wait_for(lambda one=one: any("vanished" in text for text in one.reports), "the loss is said", LIMIT_S)
    managed.add_topic()
    with managed.looping():
        owners = managed.stable("ab")
        managed.ledger.grown(ALL, "everything goes on after the recovery")
        sent = traffic.close()
        managed.consumed(sent)
    new = managed.node()
    assert owners == old.assignments, "what ran was adopted where it ran"
    assert new.generation != old.generation
    assert new.epoch > old.epoch
    assert [len(managed.ledger.owners(p)) for p in ALL] == [1, 1, 1, 1], "one owner, incarnation and epoch throughout"
    assert [managed.ledger.offsets(p) for p in ALL] == [list(range(sent))] * 4
    assert {move.kind for move in managed.history()[0].moves} == {MoveKind.ADOPT}


def test_a_restored_older_zookeeper_is_brought_to_what_runs(
    own: EmbeddedZooKeeper, managed: Managed, tmp_path: Path
) -> None:
    managed.join("a")
    with managed.looping():
        managed.stable("a")
    own.stop()
    shutil.copytree(store(own), tmp_path / "backup")
    own.start()
    managed.join("b")
    with managed.looping():
        now = managed.stable("ab")
    newest = managed.node()
    traffic = Traffic(managed.site)
    managed.ledger.grown(ALL, "records flow")
    before = sessions(managed)
    own.kill()
    shutil.rmtree(store(own))
    shutil.copytree(tmp_path / "backup", store(own))
    own.start()
    managed.ledger.grown(ALL, "consumers keep their picture")
    await_new_sessions(managed, before)
    with managed.looping():
        owners = managed.stable("ab")
        managed.ledger.grown(ALL, "everything goes on after the recovery")
        sent = traffic.close()
        managed.consumed(sent)
    assert owners == now
    assert managed.node().epoch > newest.epoch
    assert any("ZooKeeper was restored" in record.cause for record in managed.history())
    lives = {consumer: managed.site.incarnation(consumer) for consumer in "ab"}
    for partition in ALL:
        seen, owner = managed.ledger.owners(partition), now[partition]
        assert {(consumer, incarnation) for consumer, incarnation, _ in seen} == {(owner, lives[owner])}
        if now[partition] == "a":
            assert len(seen) == 1, "what the snapshot has right goes on under its epoch"
    assert [managed.ledger.offsets(p) for p in ALL] == [list(range(sent))] * 4


def command(site: Site, *arguments: str) -> object:
    """Run a command with the settings of a site; returns its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments, partial(open_coordinator, site.settings))
    return ended.value.code


def test_another_zookeeper_gets_the_state_and_consumers_go_on_from_their_commits(
    managed: Managed, tmp_path: Path
) -> None:
    old, file = managed.site, str(tmp_path / "main.state")
    for name in "ab":
        managed.join(name)
    assert command(old, "pin", old.topic, "b", "--partition", "0") == 0
    with managed.looping():
        managed.stable("ab")
        old.produce(50)
        managed.consumed(50)
    before, records = managed.node(), len(managed.history())
    for one in managed.consumers.values():
        one.close()
    assert command(old, "export", file) == 0
    old.produce(50, 50)
    (tmp_path / "other").mkdir()
    with EmbeddedZooKeeper(tmp_path / "other") as server:
        managed.site = new = copy(old)
        new.settings = replace(old.settings, zookeeper=server.connect_string)
        new.zk = open_zookeeper(new.settings)
        assert command(new, "import", file, "--execute") == 0
        for name in "ab":
            managed.join(name)
        with managed.looping():
            owners = managed.stable("ab")
            managed.consumed(100)
        after, kept = managed.node(), len(managed.history())
        with open_coordinator(new.settings) as c:
            isolated = [read_directive(c, name).isolation for name in "ab"]
        for one in managed.consumers.values():
            one.close()
        new.close()
    managed.site = old
    assert owners[0] == "b", "the pin came along"
    assert after.epoch > before.epoch
    assert kept > records
    assert isolated == [None, None], "the ends of the former processes came along: nobody waited for them"
    assert [managed.ledger.offsets(p) for p in ALL] == [list(range(100))] * 4, "none lost, none twice, and in order"
