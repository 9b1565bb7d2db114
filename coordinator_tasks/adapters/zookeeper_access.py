"""How to log in to ZooKeeper, and whether a folder is closed to all other accounts."""

import importlib.util
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL, Permissions, make_digest_acl_credential

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.tls_files import TlsFiles

_DIGEST_MD5, _GSSAPI = "DIGEST-MD5", "GSSAPI"  # what ZooKeeper's servers know
_HIDDEN = "x"  # the server shows this for a digest to an account that may not change the access list


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How to log in, all of it optional. Without `sasl_mechanism`, user and password go to ZooKeeper's digest scheme.

    A client certificate is a log-in as well (scheme x509). `open_nodes`: anybody may read and write the nodes that we
    create; otherwise only this account, if there is one. `ca`, `certificate` and `key` are files in PEM; `ca` or
    `certificate` turns TLS on. `key_password` is the pass phrase of an encrypted key.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    sasl_mechanism: str = ""
    open_nodes: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)

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

    # Folders ---------------------------------------------------------------------------------------------------------

    def check_closed(self, folder: str, acls: Sequence[ACL], top: str) -> None:
        """Raise `Refused` for a folder that anybody may change, or that this account does not own.

        `acls` is the folder's access list; `top` is the folder under which one command mends them all.
        """
        if any(one.id.scheme == "world" and one.perms & ~Permissions.READ for one in acls):
            raise Refused(
                f"{folder} in ZooKeeper can be changed by anybody, although this site logs in (it was made without a log-in). "
                f"Close it in ZooKeeper's own client, zkCli: {self._login_hint()}, then type "
                f"`{_mend(top)}`. If it is meant to be open, set zookeeper_access.open_nodes to true"
            )
        if not any(self._is_mine(one) for one in acls):
            raise self.foreign(folder, top)

    def foreign(self, folder: str, top: str) -> Refused:
        """The error for a folder of another account."""
        return Refused(
            f"{folder} in ZooKeeper belongs to another account than this one. If that is a former account of this site, "
            f"move the nodes to this one in ZooKeeper's own client, zkCli: type `addauth digest USER:PASSWORD` for the "
            f"former one (or connect as it did), {self._login_hint()}, then type `{_mend(top)}`, which gives both of them "
            "the nodes; type it again in a zkCli that is logged in as the new one alone. Otherwise correct the account, or the cluster's name"
        )

    def _is_mine(self, one: ACL) -> bool:
        """Whether an entry can be this account's. Only the server knows the name in a certificate and of a SASL user."""
        if one.id.scheme == "digest" and self.user and not self.sasl_mechanism:
            return one.id.id in (make_digest_acl_credential(self.user, self.password), f"{self.user}:{_HIDDEN}")
        schemes = {"sasl": bool(self.sasl_mechanism), "x509": bool(self.certificate)}
        return schemes.get(one.id.scheme, False)

    def _login_hint(self) -> str:
        if self.sasl_mechanism:
            return f"log in by SASL as {self.user or 'the same principal'}"
        if self.user:
            return f"type `addauth digest {self.user}:PASSWORD`"
        return f"connect with the certificate {self.certificate}"


def _mend(top: str) -> str:
    return f"setAcl -R {top} auth::cdrwa"
