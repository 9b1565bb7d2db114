"""Accounts of their own for coordinator and consumers, on a real ZooKeeper: by digest, by SASL and by certificate."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from kazoo.security import Permissions, make_digest_acl_credential

from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_rights import access_list
from coordinator_tasks.cli import main
from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.wiring import open_consumer_session, open_coordinator
from tests.contract.test_zookeeper_login import ADA, EVE, Site, login_site, new_cluster, settings_of

ADA_ID, EVE_ID = (f"digest:{make_digest_acl_credential(one.user, one.password)}" for one in (ADA, EVE))
BOB = ZooKeeperAccess("bob", "third", coordinator=(ADA_ID,))
BOB_ID = f"digest:{make_digest_acl_credential(BOB.user, BOB.password)}"
COORDINATOR = replace(ADA, consumers=(EVE_ID,))
CONSUMER = replace(EVE, coordinator=(ADA_ID,))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with login_site(tmp_path_factory.mktemp("accounts")) as site:
        yield site


def pair(made: Site, scheme: str) -> tuple[ZooKeeperAccess, ZooKeeperAccess]:
    """The coordinator's access and the consumers'."""
    if scheme == "digest":
        return COORDINATOR, CONSUMER
    if scheme == "sasl":
        ada, eve = (replace(one, sasl_mechanism="DIGEST-MD5") for one in (ADA, EVE))
        return replace(ada, consumers=("sasl:eve",)), replace(eve, coordinator=("sasl:ada",))
    certified = [made.access(made.site.sign(name)) for name in ("coordinator", "consumers")]
    if scheme == "x509":
        ours, theirs = certified
        return replace(ours, consumers=("x509:CN=consumers",)), replace(theirs, coordinator=("x509:CN=coordinator",))
    # One certificate for all hosts, and a user beside it: the user alone is the account.
    shared = certified[0]
    ours, theirs = (replace(shared, user=one.user, password=one.password) for one in (ADA, EVE))
    return replace(ours, consumers=(EVE_ID,)), replace(theirs, coordinator=(ADA_ID,))


def acls(made: Site, cluster: str, path: str) -> dict[str, int]:
    """The access list of a node, as the digest account ada sees it."""
    zk = KazooZooKeeper(made.plain, access=ADA)
    try:
        return {
            f"{one.id.scheme}:{one.id.id}": one.perms
            for one in access_list(zk, f"/{cluster}/consumers/{cluster}{path}")
        }
    finally:
        zk.close()


@pytest.mark.parametrize("scheme", ["digest", "sasl", "x509", "digest and a shared certificate"])
def test_a_consumer_registers_under_its_own_account_and_writes_nothing_else(made: Site, scheme: str) -> None:
    cluster = new_cluster()
    ours, theirs = pair(made, scheme)
    with open_coordinator(settings_of(made, cluster, ours)) as c:
        c.zk.transact([Create(c.paths.directive("a"), b"{}"), Create(c.paths.fleet("etl"), b"{}")])
        with open_consumer_session(settings_of(made, cluster, theirs)) as session:
            number = session.claim_incarnation("a")
            session.registry.register(Member("a", number, "http://127.0.0.1:1", "boot"))
            assert list(c.discovery.members()) == ["a"]
            for path in (c.paths.directive("a"), c.paths.fleet("etl"), c.paths.fleets):
                assert session.zk.find(path) is not None
                with pytest.raises(Refused, match="may not be used by this ZooKeeper account"):
                    session.zk.transact([SetData(path, b"{}")])
            with pytest.raises(Refused, match="may not be used by this ZooKeeper account"):
                session.zk.transact([Create(c.paths.topic("orders"), b"{}")])
            session.registry.deregister("a", number)
        assert c.zk.find(c.paths.member("a")) is None
    # Again, with the folders that are there now.
    with (
        open_coordinator(settings_of(made, cluster, ours)),
        open_consumer_session(settings_of(made, cluster, theirs)) as session,
    ):
        assert session.claim_incarnation("a") > number


def test_each_consumer_may_have_an_account_of_its_own(made: Site) -> None:
    cluster = new_cluster()
    ours = replace(COORDINATOR, consumers=(EVE_ID, BOB_ID))
    with (
        open_coordinator(settings_of(made, cluster, ours)),
        open_consumer_session(settings_of(made, cluster, CONSUMER)) as eve,
        open_consumer_session(settings_of(made, cluster, BOB)) as bob,
    ):
        eve.claim_incarnation("a")
        bob.claim_incarnation("b")
        for session, foreign in ((eve, "b"), (bob, "a")):
            with pytest.raises(Refused, match=f"/ids/{foreign} may not be used by this ZooKeeper account"):
                session.claim_incarnation(foreign)


def test_a_consumer_waits_for_the_folders_of_its_coordinator(made: Site) -> None:
    cluster = new_cluster()
    settings = settings_of(made, cluster, CONSUMER)
    with (
        pytest.raises(
            StoreUnavailable, match="is not in ZooKeeper, and this account may not create it; start the coord"
        ),
        open_consumer_session(settings),
    ):
        pass
    with open_coordinator(settings_of(made, cluster, COORDINATOR)), open_consumer_session(settings):
        pass


def run_command(made: Site, cluster: str, access: ZooKeeperAccess, monkeypatch: pytest.MonkeyPatch) -> int:
    """`coordinator zookeeper-rights` with the settings of this account; the exit code."""
    settings = settings_of(made, cluster, access)
    monkeypatch.setenv("COORDINATOR_CLUSTER", cluster)
    monkeypatch.setattr("coordinator_tasks.cli.base.settings_from_environment", lambda: settings)
    with pytest.raises(SystemExit) as ended:
        main(["zookeeper-rights"])
    return int(str(ended.value.code))


@pytest.mark.parametrize("before", [ZooKeeperAccess(), ADA], ids=["open", "one account"])
def test_folders_that_were_there_before_are_refused_until_the_command_has_closed_them(
    made: Site, before: ZooKeeperAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster()
    settings, theirs = settings_of(made, cluster, COORDINATOR), settings_of(made, cluster, CONSUMER)
    with open_coordinator(settings_of(made, cluster, before)) as c, suppress(StopIteration):
        partitions = [Create(c.paths.partition("orders", p)) for p in range(3)]
        c.zk.transact([Create(c.paths.topic("orders"), b"{}"), *partitions, Create(c.paths.fleet("etl"), b"{}")])
        for one in (open_coordinator, open_consumer_session):
            with pytest.raises(Refused, match="`coordinator zookeeper-rights`"), one(settings):  # type: ignore[operator]
                pass
        with pytest.raises(Refused, match="ype `coordinator zookeeper-rights`"), open_consumer_session(theirs):
            pass
    assert run_command(made, cluster, COORDINATOR, monkeypatch) == 0
    everything = {"digest:" + ADA_ID.partition(":")[2]: 31}
    assert acls(made, cluster, "/fleet/etl") == {**everything, EVE_ID: Permissions.READ}
    assert acls(made, cluster, "/assignments/orders") == {**everything, EVE_ID: Permissions.READ}
    assert acls(made, cluster, "/assignments/orders/2") == {**everything, EVE_ID: Permissions.READ | Permissions.WRITE}
    assert acls(made, cluster, "/config") == {**everything, EVE_ID: Permissions.READ}
    with open_coordinator(settings), open_consumer_session(theirs):
        pass


def test_the_command_is_the_coordinators(
    made: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = new_cluster()
    assert run_command(made, cluster, CONSUMER, monkeypatch) == 2
    assert "this account is a consumer's; use the coordinator's settings" in capsys.readouterr().err
    assert run_command(made, cluster, ZooKeeperAccess(), monkeypatch) == 2
    assert "the settings have no log-in to ZooKeeper that closes nodes" in capsys.readouterr().err
    with open_coordinator(settings_of(made, cluster, EVE)):
        pass
    assert run_command(made, cluster, COORDINATOR, monkeypatch) == 2
    assert "belongs to another account than this one" in capsys.readouterr().err


def test_a_consumer_that_names_another_coordinator_is_refused(made: Site) -> None:
    cluster = new_cluster()
    with open_coordinator(settings_of(made, cluster, COORDINATOR)):
        pass
    wrong = replace(CONSUMER, coordinator=(BOB_ID,))
    with (
        pytest.raises(Refused, match=r"not of the coordinator that zookeeper_access\.coordinator names"),
        open_consumer_session(settings_of(made, cluster, wrong)),
    ):
        pass
