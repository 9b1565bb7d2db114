"""Coordinator and consumers with ZooKeeper accounts of their own: the whole job works, and nothing else is allowed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, Permissions, make_digest_acl_credential

from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_rights import access_list
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Ending, Fleet, MoveKind
from coordinator_tasks.core.ports import Create, Delete, SetData
from coordinator_tasks.core.protocol import node_rights
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives, fleet, history
from coordinator_tasks.wiring import Settings, open_coordinator, open_zookeeper
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration
COORDINATOR, CONSUMERS = ("coordinator", "pw-one"), ("consumers", "pw-two")
ALL = range(4)


def account(login: tuple[str, str]) -> str:
    return f"digest:{make_digest_acl_credential(*login)}"


OURS = ZooKeeperAccess(*COORDINATOR, consumers=(account(CONSUMERS),))
THEIRS = ZooKeeperAccess(*CONSUMERS, coordinator=(account(COORDINATOR),))


def as_consumer(site: Site) -> Settings:
    return replace(site.settings, zookeeper_access=THEIRS)


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(f"{zookeeper.connect_string}/accounts", kafka.bootstrap_servers, access=OURS))
    yield made
    made.close()


def everything(zk: KazooZooKeeper, top: str) -> Iterator[str]:
    yield top
    for child in zk.children(top):
        yield from everything(zk, f"{top}/{child}")


def acls_of(zk: KazooZooKeeper, path: str) -> dict[str, int]:
    return {f"{one.id.scheme}:{one.id.id}": one.perms for one in access_list(zk, path)}


def test_the_whole_job_works_with_two_accounts_and_a_consumer_may_do_nothing_else(managed: Managed) -> None:
    site, theirs = managed.site, as_consumer(managed.site)
    managed.join("a", theirs)
    with managed.looping(), open_coordinator(site.settings) as c:
        fleet.set_fleet(c, Fleet("etl", OWN_APPLICATIONS[0], ("z",)))
        managed.stable("a")
        traffic = Traffic(site)
        managed.ledger.grown(ALL, "records flow")
        managed.join("b", theirs)
        managed.stable("ab")
        directives.drain(c, "a", "ann", "a new host")
        wait_for(lambda: managed.consumers["a"].code == 0, "a has left after its drain", LIMIT_S)
        managed.stable("b")
        managed.join("c", theirs)
        managed.stable("bc")
        managed.consumers["b"].consumer.leave()
        managed.stable("c")
        wait_for(lambda: managed.consumers["b"].code == 0, "b has left", LIMIT_S)
        path = site.paths.id("b")
        assert Ending.LEFT in decode_claim(path, site.zk.get(path).data, "b", 0).ended.values()
        kinds = [move.kind for record in history.records(c, site.topic, 500) for move in record.moves]
        assert set(kinds) <= {MoveKind.START, MoveKind.HANDOFF}, "nobody was isolated, and nothing was waited for"
        assert managed.consumers["c"].reports == ()
        sent = traffic.close()
        managed.consumed(sent)
        managed.judge(sent)
        check_rights(site, theirs)


def check_rights(site: Site, theirs: Settings) -> None:
    """Every node has its access list, and what a consumer's account may not do, it is refused."""
    zk = open_zookeeper(theirs)
    kinds, refused = set(), 0
    for path in list(everything(site.zk, site.paths.base)):
        inside = path.removeprefix(site.paths.base).split("/")[1:]
        kinds.add((inside[0] if inside else "", len(inside)))
        rights = node_rights.of_consumers(path)
        wanted = {account(COORDINATOR): Permissions.ALL, account(CONSUMERS): sum(RIGHTS[one] for one in rights)}
        assert acls_of(site.zk, path) == {who: perms for who, perms in wanted.items() if perms}, path
        attempts = {
            "r": lambda path=path: zk.get(path),
            "w": lambda path=path: zk.transact([SetData(path, b"{}")]),
            "c": lambda path=path: zk.transact([Create(f"{path}/x", b"{}")]),
        }
        if "d" not in node_rights.of_consumers(path.rpartition("/")[0]):
            attempts["deletes it"] = lambda path=path: zk.transact([Delete(path)])
        attempts["a"] = lambda path=path: zk.repeat(
            path, lambda: zk.client.set_acls_async(zk.full(path), OPEN_ACL_UNSAFE), lambda answer: answer
        )
        for right, attempt in attempts.items():
            if right not in rights:
                with pytest.raises(Refused, match="may not be used by this ZooKeeper account"):
                    attempt()
                refused += 1
    zk.close()
    folders = {folder.rpartition("/")[2] for folder in site.paths.folders()}
    # No fleet is upgraded here, so nothing is in that folder.
    leaves = {(folder, 2) for folder in folders - {"upgrades"}} | {("assignments", 3), ("history", 3)}
    assert kinds == {("", 0)} | {(folder, 1) for folder in folders} | leaves
    assert refused > 100


RIGHTS = {"r": Permissions.READ, "w": Permissions.WRITE, "c": Permissions.CREATE, "d": Permissions.DELETE}
