"""Which access list a node gets, and which lists are refused; on a real server in `tests/contract/test_zookeeper_rights.py`."""

from dataclasses import replace

import pytest
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from coordinator_tasks.adapters.access_lists import AccessLists
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import Paths

ADA, EVE = ZooKeeperAccess("ada", "pw"), ZooKeeperAccess("eve", "other")
ADA_ID, EVE_ID = (Id("digest", make_digest_acl_credential(one.user, one.password)) for one in (ADA, EVE))
COORDINATOR = AccessLists(replace(ADA, consumers=(f"digest:{EVE_ID.id}",)))
CONSUMER = AccessLists(replace(EVE, coordinator=(f"digest:{ADA_ID.id}",)))
PATHS = Paths("shop")
READ, READ_WRITE = Permissions.READ, Permissions.READ | Permissions.WRITE
ALL_OF_ADA = ACL(Permissions.ALL, ADA_ID)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (ZooKeeperAccess(), OPEN_ACL_UNSAFE),
        (ADA, CREATOR_ALL_ACL),
        (replace(ADA, open_nodes=True), OPEN_ACL_UNSAFE),
    ],
    ids=["without a log-in", "one account", "one account, open nodes"],
)
def test_a_node_without_separate_accounts_has_one_list(access: ZooKeeperAccess, expected: list[ACL]) -> None:
    assert AccessLists(access).acl_of(PATHS.topic("orders")) == expected


@pytest.mark.parametrize(
    ("path", "rights"),
    [
        (PATHS.topic("orders"), READ),
        (PATHS.partition("orders", 2), READ_WRITE),
        (PATHS.fleet("etl"), READ),
        (PATHS.history("orders"), 0),
    ],
)
def test_the_coordinator_gives_a_consumer_the_rights_that_it_needs(path: str, rights: int) -> None:
    assert COORDINATOR.acl_of(path) == [ALL_OF_ADA, *([ACL(rights, EVE_ID)] if rights else [])]


def test_the_coordinator_has_all_rights_on_the_nodes_of_a_consumer() -> None:
    assert CONSUMER.acl_of(PATHS.member("a")) == [ACL(READ, EVE_ID), ALL_OF_ADA]


def test_a_consumer_creates_its_own_nodes_only() -> None:
    assert CONSUMER.may_create(PATHS.member("a"))
    assert not CONSUMER.may_create(PATHS.topic("orders"))
    assert COORDINATOR.may_create(PATHS.topic("orders"))


@pytest.mark.parametrize("lists", [COORDINATOR, CONSUMER], ids=["coordinator", "consumer"])
@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([ALL_OF_ADA, ACL(READ_WRITE, Id("world", "anyone"))], "can be changed by anybody"),
        ([ALL_OF_ADA, ACL(READ_WRITE, EVE_ID)], "which has the rights rw there, while a consumer needs r"),
        ([ALL_OF_ADA], "does not give the rights r to"),
        ([ACL(Permissions.ALL, EVE_ID)], "belongs to another account|is not for this account"),
    ],
    ids=["open to all", "more for consumers", "less for consumers", "not the coordinator's"],
)
def test_a_folder_with_another_list_is_refused(lists: AccessLists, acls: list[ACL], expected: str) -> None:
    with pytest.raises(Refused, match=expected):
        lists.check_closed(PATHS.directives, acls, PATHS.base)


@pytest.mark.parametrize("lists", [COORDINATOR, CONSUMER], ids=["coordinator", "consumer"])
def test_a_folder_with_its_list_is_taken_below_a_chroot_as_well(lists: AccessLists) -> None:
    lists.check_closed(f"/site{PATHS.directives}", lists.acl_of(PATHS.directives), f"/site{PATHS.base}", "/site")
