"""Access lists (ACLs) of nodes: the list that each node should have, and the check of a stored list.

Without separate accounts, only the account that created a node may use it. With separate accounts, the coordinator's
account has all rights, and a consumer's account has the rights in `core.protocol.node_rights`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from coordinator_tasks.adapters.zookeeper_access import DIGEST_MD5, ZooKeeperAccess
from coordinator_tasks.core.errors import NoAccess, Refused, StoreUnavailable
from coordinator_tasks.core.protocol import node_rights

_HIDDEN = "x"  # shown by the server in place of a digest, unless the account may change the list
_LETTERS = {
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "a": Permissions.ADMIN,
}
MEND = "coordinator zookeeper-rights"
"""The command that gives every node its access list."""


@dataclass(frozen=True, slots=True)
class AccessLists:
    """The access lists that follow from an account and from the other accounts in its settings."""

    access: ZooKeeperAccess

    def acl_of(self, path: str) -> list[ACL]:
        """Return the access list for a new node. `path` does not include the chroot."""
        if not self.access.separate:
            return list(CREATOR_ALL_ACL if self.access.closes_nodes else OPEN_ACL_UNSAFE)
        rights, mine = _permissions(node_rights.of_consumers(path)), self._own_id()
        if self.access.coordinator:
            return [ACL(rights, mine), *(ACL(Permissions.ALL, _id(one)) for one in self.access.coordinator)]
        others = (ACL(rights, _id(one)) for one in self.access.consumers)
        return [ACL(Permissions.ALL, mine), *(one for one in others if rights)]

    def may_create(self, path: str) -> bool:
        """Return whether this account creates the node. A consumer's account creates only nodes of consumers."""
        return not self.access.coordinator or node_rights.is_created_by_consumers(path)

    def _own_id(self) -> Id:
        """Return the id of this account, even if the connection also has a certificate."""
        if self.access.sasl_mechanism == DIGEST_MD5:
            return Id("sasl", self.access.user)
        if self.access.user and not self.access.sasl_mechanism:
            return Id("digest", make_digest_acl_credential(self.access.user, self.access.password))
        return CREATOR_ALL_ACL[0].id

    def check_closed(self, folder: str, acls: Sequence[ACL], top: str, chroot: str = "") -> None:
        """Raise `Refused` if other accounts may change the folder, or if another account owns the folder.

        `acls`: the folder's access list. The error tells how to repair the lists of all nodes below `top`. Both paths
        begin with the `chroot`.
        """
        if any(one.id.scheme == "world" and one.perms & ~Permissions.READ for one in acls):
            raise NoAccess(
                f"{folder} in ZooKeeper can be changed by anybody, although this site logs in (it was made without a log-in). "
                + (
                    f"Close it: {self._mending()}"
                    if self.access.separate
                    else f"Close it in ZooKeeper's own client, zkCli: {self._login_hint()}, then type "
                    f"`{_mend(top)}`. If it is meant to be open, set zookeeper_access.open_nodes to true"
                )
            )
        if self.access.separate:
            self._check_separate(folder, acls, top, folder.removeprefix(chroot))
        elif not any(self._is_mine(one) for one in acls):
            raise self.foreign(folder, top)

    def _check_separate(self, folder: str, acls: Sequence[ACL], top: str, path: str) -> None:
        letters = node_rights.of_consumers(path)
        rights = _permissions(letters)
        others = [one for one in acls if not self._is_coordinators(one) and one.id.scheme != "world"]
        if len(others) == len(acls):
            raise self.foreign(folder, top)
        for one in others:
            if one.perms & ~rights:
                raise NoAccess(
                    f"{folder} in ZooKeeper can be changed by {one.id.scheme}:{one.id.id}, which has the rights "
                    f"{_letters(one.perms)} there, while a consumer needs {letters}. {self._mending()}"
                )
        if not rights or node_rights.is_created_by_consumers(path):
            return  # each consumer's account creates this folder for itself
        wanted = [_id(one) for one in self.access.consumers] if self.access.consumers else [self._own_id()]
        for account in wanted:
            found = [
                one.perms for one in others if _is_same(one.id, account) or (account.scheme == "auth" and one.perms)
            ]
            if not any(perms == rights for perms in found):
                raise NoAccess(
                    f"{folder} in ZooKeeper does not give the rights {letters} to "
                    f"{_shown(account) if self.access.consumers else 'this account'}, which a consumer needs. {self._mending()}"
                )

    def _is_coordinators(self, one: ACL) -> bool:
        if one.perms != Permissions.ALL:
            return False
        if self.access.coordinator:
            return any(_is_same(one.id, _id(account)) for account in self.access.coordinator)
        return self._is_mine(one) and not any(_is_same(one.id, _id(account)) for account in self.access.consumers)

    def _mending(self) -> str:
        if self.access.coordinator:
            return f"Where the coordinator runs, type `{MEND}`, and check zookeeper_access.consumers there"
        return f"Type `{MEND}`"

    def missing(self, folder: str) -> StoreUnavailable:
        """Return the error for a missing folder. Only the coordinator's account creates the folder."""
        return StoreUnavailable(
            f"{folder} is not in ZooKeeper, and this account may not create it; start the coordinator, which does"
        )

    def foreign(self, folder: str, top: str) -> Refused:
        """Return the error for a folder of another account."""
        if self.access.coordinator:
            return NoAccess(
                f"{folder} in ZooKeeper is not for this account, or not of the coordinator that zookeeper_access.coordinator "
                f"names. Correct the account, or that setting. {self._mending()}"
            )
        return NoAccess(
            f"{folder} in ZooKeeper belongs to another account than this one. If that is a former account of this site, "
            f"move the nodes to this one in ZooKeeper's own client, zkCli: type `addauth digest USER:PASSWORD` for the "
            f"former one (or connect as it did), {self._login_hint()}, then type `{_mend(top)}`, which gives both of them "
            "the nodes; type it again in a zkCli that is logged in as the new one alone. Otherwise correct the account, or the cluster's name"
        )

    def _is_mine(self, one: ACL) -> bool:
        """Return whether the entry may be this account's. The names of certificates and SASL users are known to the
        server only.
        """
        if one.id.scheme == "digest" and self.access.user and not self.access.sasl_mechanism:
            return _is_same(one.id, Id("digest", make_digest_acl_credential(self.access.user, self.access.password)))
        schemes = {"sasl": bool(self.access.sasl_mechanism), "x509": bool(self.access.certificate)}
        return schemes.get(one.id.scheme, False)

    def _login_hint(self) -> str:
        if self.access.sasl_mechanism:
            return f"log in by SASL as {self.access.user or 'the same principal'}"
        if self.access.user:
            return f"type `addauth digest {self.access.user}:PASSWORD`"
        return f"connect with the certificate {self.access.certificate}"


def _id(account: str) -> Id:
    scheme, _, name = account.partition(":")
    return Id(scheme, name)


def _is_same(found: Id, wanted: Id) -> bool:
    """Return whether both ids are the same account, as far as the server's answer shows the accounts."""
    hidden = f"{wanted.id.partition(':')[0]}:{_HIDDEN}" if wanted.scheme == "digest" else wanted.id
    return found.scheme == wanted.scheme and found.id in (wanted.id, hidden)


def _shown(account: Id) -> str:
    return f"{account.scheme}:{account.id.partition(':')[0] if account.scheme == 'digest' else account.id}"


def _permissions(letters: str) -> int:
    return sum(_LETTERS[letter] for letter in letters)


def _letters(permissions: int) -> str:
    return "".join(letter for letter, one in _LETTERS.items() if permissions & one)


def _mend(top: str) -> str:
    return f"setAcl -R {top} auth::cdrwa"
