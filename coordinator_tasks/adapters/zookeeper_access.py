"""How to log in to ZooKeeper, which access list a node gets, and whether a folder is closed to everybody else."""

import importlib.util
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from coordinator_tasks.core import node_rights
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.tls_files import TlsFiles

_DIGEST_MD5, _GSSAPI = "DIGEST-MD5", "GSSAPI"  # what ZooKeeper's servers know
_HIDDEN = "x"  # the server shows this for a digest to an account that may not change the access list
_ACCOUNT = re.compile(r"(?P<scheme>digest|sasl|x509):(?P<name>.+)")
_DIGEST = re.compile(r"[^:]+:[A-Za-z0-9+/]{27}=")  # user:hash
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
class ZooKeeperAccess:
    """How to log in, all of it optional. Without `sasl_mechanism`, user and password go to ZooKeeper's digest scheme.

    A client certificate is a log-in as well (scheme x509). `open_nodes`: anybody may read and write the nodes that we
    create; otherwise only this account, if there is one. `ca`, `certificate` and `key` are files in PEM; `ca` or
    `certificate` turns TLS on. `key_password` is the pass phrase of an encrypted key.

    Coordinator and consumers may have separate accounts. Then the coordinator names those of the `consumers`, and each
    consumer that of its `coordinator`, as `digest:user:hash`, `sasl:name` or `x509:subject`. Who names neither shares
    one account with everybody.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    sasl_mechanism: str = ""
    open_nodes: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    consumers: tuple[str, ...] = ()
    coordinator: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("consumers", "coordinator"):
            for account in getattr(self, name):
                _check_account(name, account)
        if self.consumers and self.coordinator:
            raise Refused(
                "zookeeper_access.consumers is for the coordinator, and zookeeper_access.coordinator for consumers; "
                "set one of them"
            )

    @property
    def separate(self) -> bool:
        """Whether coordinator and consumers have accounts of their own."""
        return bool(self.consumers or self.coordinator)

    @property
    def tls(self) -> bool:
        return bool(self.ca or self.certificate)

    @property
    def closes_nodes(self) -> bool:
        """Whether the nodes that we create are for this account only."""
        return bool(self.sasl_mechanism or self.user or self.certificate) and not self.open_nodes

    def client_options(self) -> dict[str, Any]:
        """Arguments of `KazooClient`; raises `Refused` for settings that no server could accept."""
        options: dict[str, Any] = {}
        if self.separate and not self.closes_nodes:
            raise Refused(
                "zookeeper_access names accounts of others, and has no log-in that closes nodes; set its user and password, "
                "sasl_mechanism or certificate, and leave open_nodes out"
            )
        if self.sasl_mechanism:
            options["sasl_options"] = self._sasl_options()
        elif self.user:
            options["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        if self.closes_nodes:
            options["default_acl"] = CREATOR_ALL_ACL
        self._check_files()
        if self.tls:
            options |= {"use_ssl": True, "ca": self.ca or None, "check_hostname": True}
            # Without a pass phrase, OpenSSL asks for one on the terminal; with an empty one it does not.
            options |= {"certfile": self.certificate or None, "keyfile": self.key or None}
            options |= {"keyfile_password": self.key_password}
        return options

    def _sasl_options(self) -> dict[str, str]:
        if self.sasl_mechanism not in (_DIGEST_MD5, _GSSAPI):
            raise Refused(
                f"ZooKeeper has no SASL mechanism {self.sasl_mechanism!r}; "
                f"set zookeeper_access.sasl_mechanism to {_DIGEST_MD5} or {_GSSAPI}"
            )
        if self.sasl_mechanism == _DIGEST_MD5 and not (self.user and self.password):
            raise Refused(
                f"SASL with {_DIGEST_MD5} needs a user and a password; "
                "set zookeeper_access.user and zookeeper_access.password"
            )
        if importlib.util.find_spec("puresasl") is None:
            raise Refused("SASL to ZooKeeper needs the package pure-sasl, which is not installed; install it")
        if self.sasl_mechanism == _GSSAPI and importlib.util.find_spec("kerberos") is None:
            raise Refused(f"SASL with {_GSSAPI} needs the package kerberos, which is not installed; install it")
        login = {"username": self.user, "password": self.password} if self.user else {}
        return {"mechanism": self.sasl_mechanism, **login}

    def _check_files(self) -> None:
        """Load the certificates now: with wrong ones, every connection would fail."""
        login = "the log-in to ZooKeeper with a certificate"
        files = TlsFiles("zookeeper_access.", login, self.ca, self.certificate, self.key, self.key_password)
        files.check_complete()
        if self.tls:
            files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    # Access lists ----------------------------------------------------------------------------------------------------

    def acl_of(self, path: str) -> list[ACL]:
        """The access list of a node from its creation on; `path` is without the chroot."""
        if not self.separate:
            return list(CREATOR_ALL_ACL if self.closes_nodes else OPEN_ACL_UNSAFE)
        rights, mine = _permissions(node_rights.of_consumers(path)), self._own_id()
        if self.coordinator:
            return [ACL(rights, mine), *(ACL(Permissions.ALL, _id(one)) for one in self.coordinator)]
        others = (ACL(rights, _id(one)) for one in self.consumers)
        return [ACL(Permissions.ALL, mine), *(one for one in others if rights)]

    def may_create(self, path: str) -> bool:
        """Whether this account creates such nodes; a consumer's creates its own ones only."""
        return not self.coordinator or node_rights.is_created_by_consumers(path)

    def _own_id(self) -> Id:
        """This account alone, though the connection may have a certificate beside it."""
        if self.sasl_mechanism == _DIGEST_MD5:
            return Id("sasl", self.user)
        if self.user and not self.sasl_mechanism:
            return Id("digest", make_digest_acl_credential(self.user, self.password))
        return CREATOR_ALL_ACL[0].id

    # Folders ---------------------------------------------------------------------------------------------------------

    def check_closed(self, folder: str, acls: Sequence[ACL], top: str, chroot: str = "") -> None:
        """Raise `Refused` for a folder that others may change, or that this account does not own.

        `acls` is the folder's access list; `top` is the folder under which all of them are mended at once. Both paths begin
        with the `chroot`.
        """
        if any(one.id.scheme == "world" and one.perms & ~Permissions.READ for one in acls):
            raise Refused(
                f"{folder} in ZooKeeper can be changed by anybody, although this site logs in (it was made without a log-in). "
                + (
                    f"Close it: {self._mending()}"
                    if self.separate
                    else f"Close it in ZooKeeper's own client, zkCli: {self._login_hint()}, then type "
                    f"`{_mend(top)}`. If it is meant to be open, set zookeeper_access.open_nodes to true"
                )
            )
        if self.separate:
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
                raise Refused(
                    f"{folder} in ZooKeeper can be changed by {one.id.scheme}:{one.id.id}, which has the rights "
                    f"{_letters(one.perms)} there, while a consumer needs {letters}. {self._mending()}"
                )
        if not rights or node_rights.is_created_by_consumers(path):
            return  # each consumer creates it for its own account
        wanted = [_id(one) for one in self.consumers] if self.consumers else [self._own_id()]
        for account in wanted:
            found = [
                one.perms for one in others if _is_same(one.id, account) or (account.scheme == "auth" and one.perms)
            ]
            if not any(perms == rights for perms in found):
                raise Refused(
                    f"{folder} in ZooKeeper does not give the rights {letters} to "
                    f"{_shown(account) if self.consumers else 'this account'}, which a consumer needs. {self._mending()}"
                )

    def _is_coordinators(self, one: ACL) -> bool:
        """Whether this entry is the coordinator's."""
        if one.perms != Permissions.ALL:
            return False
        if self.coordinator:
            return any(_is_same(one.id, _id(account)) for account in self.coordinator)
        return self._is_mine(one) and not any(_is_same(one.id, _id(account)) for account in self.consumers)

    def _mending(self) -> str:
        if self.coordinator:
            return f"Where the coordinator runs, type `{MEND}`, and check zookeeper_access.consumers there"
        return f"Type `{MEND}`"

    def foreign(self, folder: str, top: str) -> Refused:
        """The error for a folder of another account."""
        if self.coordinator:
            return Refused(
                f"{folder} in ZooKeeper is not for this account, or not of the coordinator that zookeeper_access.coordinator "
                f"names. Correct the account, or that setting. {self._mending()}"
            )
        return Refused(
            f"{folder} in ZooKeeper belongs to another account than this one. If that is a former account of this site, "
            f"move the nodes to this one in ZooKeeper's own client, zkCli: type `addauth digest USER:PASSWORD` for the "
            f"former one (or connect as it did), {self._login_hint()}, then type `{_mend(top)}`, which gives both of them "
            "the nodes; type it again in a zkCli that is logged in as the new one alone. Otherwise correct the account, or the cluster's name"
        )

    def _is_mine(self, one: ACL) -> bool:
        """Whether an entry can be this account's. Only the server knows the name in a certificate and of a SASL user."""
        if one.id.scheme == "digest" and self.user and not self.sasl_mechanism:
            return _is_same(one.id, Id("digest", make_digest_acl_credential(self.user, self.password)))
        schemes = {"sasl": bool(self.sasl_mechanism), "x509": bool(self.certificate)}
        return schemes.get(one.id.scheme, False)

    def _login_hint(self) -> str:
        if self.sasl_mechanism:
            return f"log in by SASL as {self.user or 'the same principal'}"
        if self.user:
            return f"type `addauth digest {self.user}:PASSWORD`"
        return f"connect with the certificate {self.certificate}"


def _check_account(setting: str, account: str) -> None:
    found = _ACCOUNT.fullmatch(account)
    if found is not None and (found["scheme"] != "digest" or _DIGEST.fullmatch(found["name"])):
        return
    # What stands behind the user may be a password.
    shown = ":".join(account.split(":")[:2])
    raise Refused(
        f"zookeeper_access.{setting}: {shown!r} names no account; write digest:USER:HASH with the hash of user and password, "
        "sasl:NAME, or x509:SUBJECT with the subject of the certificate"
    )


def _id(account: str) -> Id:
    scheme, _, name = account.partition(":")
    return Id(scheme, name)


def _is_same(found: Id, wanted: Id) -> bool:
    """Whether both are one account, as far as the server shows it."""
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
