"""ZooKeeper emptied under a running cluster: consumers read on, and no partition has two owners."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import MoveKind
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
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
    shutil.rmtree(own.data_dir / "data" / "version-2")
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
