"""The log-in to ZooKeeper."""

import importlib.util
import re
import ssl
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import CREATOR_ALL_ACL

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.tls_files import TlsFiles

DIGEST_MD5, _GSSAPI = "DIGEST-MD5", "GSSAPI"  # the SASL mechanisms of ZooKeeper's servers
_SCHEMES = ("digest", "sasl", "x509")
_ACCOUNT = re.compile(rf"(?P<scheme>{'|'.join(_SCHEMES)}):(?P<name>.+)")
_DIGEST = re.compile(r"[^:]+:[A-Za-z0-9+/]{27}=")  # user:hash


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """The log-in; every field is optional.

    Coordinator and consumers may have separate accounts, each written as `digest:user:hash`, `sasl:name` or
    `x509:subject`. Without `consumers` and `coordinator`, everybody shares a single account.
    """

    user: str = ""
    """Login for SASL; without `sasl_mechanism`, for ZooKeeper's digest scheme."""
    password: str = field(default="", repr=False)
    """Password of `user`."""
    sasl_mechanism: str = ""
    """`DIGEST-MD5` or `GSSAPI`: SASL instead of digest; empty = digest."""
    open_nodes: bool = False
    """With a login or a client certificate: whether everybody may read and write the created nodes."""
    ca: str = ""
    """File in PEM; `ca` or `certificate` turns TLS on."""
    certificate: str = ""
    """File in PEM with the client's certificate; also a login (scheme `x509`)."""
    key: str = ""
    """File in PEM, with the certificate's key."""
    key_password: str = field(default="", repr=False)
    """Pass phrase of an encrypted key."""
    consumers: tuple[str, ...] = ()
    """On the coordinator's side: the consumers' accounts, separated by `;` (in the file also a list)."""
    coordinator: tuple[str, ...] = ()
    """On the consumers' side: the coordinator's accounts, in the same form."""

    def __post_init__(self) -> None:
        for name in ("consumers", "coordinator"):
            for account in getattr(self, name):
                _check_account(name, account)
        if self.consumers and self.coordinator:
            raise BadSettings(
                "zookeeper_access.consumers is for the coordinator, and zookeeper_access.coordinator for consumers; "
                "set one of them"
            )

    @property
    def separate(self) -> bool:
        return bool(self.consumers or self.coordinator)

    @property
    def tls(self) -> bool:
        return bool(self.ca or self.certificate)

    @property
    def closes_nodes(self) -> bool:
        """Return whether nodes are created for this account only."""
        return bool(self.sasl_mechanism or self.user or self.certificate) and not self.open_nodes

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of `KazooClient`; raises `BadSettings` for settings that no server could accept."""
        options: dict[str, Any] = {}
        if self.separate and not self.closes_nodes:
            raise BadSettings(
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
            # If there is no pass phrase, OpenSSL asks for it on the terminal. An empty pass phrase prevents the
            # question.
            options |= {"certfile": self.certificate or None, "keyfile": self.key or None}
            options |= {"keyfile_password": self.key_password}
        return options

    def _sasl_options(self) -> dict[str, str]:
        if self.sasl_mechanism not in (DIGEST_MD5, _GSSAPI):
            raise BadSettings(
                f"ZooKeeper has no SASL mechanism {self.sasl_mechanism!r}; "
                f"set zookeeper_access.sasl_mechanism to {DIGEST_MD5} or {_GSSAPI}"
            )
        if self.sasl_mechanism == DIGEST_MD5 and not (self.user and self.password):
            raise BadSettings(
                f"SASL with {DIGEST_MD5} needs a user and a password; "
                "set zookeeper_access.user and zookeeper_access.password"
            )
        if importlib.util.find_spec("puresasl") is None:
            raise BadSettings("SASL to ZooKeeper needs the package pure-sasl, which is not installed; install it")
        if self.sasl_mechanism == _GSSAPI and importlib.util.find_spec("kerberos") is None:
            raise BadSettings(f"SASL with {_GSSAPI} needs the package kerberos, which is not installed; install it")
        login = {"username": self.user, "password": self.password} if self.user else {}
        return {"mechanism": self.sasl_mechanism, **login}

    def _check_files(self) -> None:
        """Load the certificates now. With wrong files, every connection would fail later."""
        login = "the log-in to ZooKeeper with a certificate"
        files = TlsFiles("zookeeper_access.", login, self.ca, self.certificate, self.key, self.key_password)
        files.check_complete()
        if self.tls:
            files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _check_account(setting: str, account: str) -> None:
    found = _ACCOUNT.fullmatch(account)
    if found is not None and (found["scheme"] != "digest" or _DIGEST.fullmatch(found["name"])):
        return
    # The part after the user may be a password. If the scheme is missing, the user comes first.
    parts = account.split(":")
    shown = ":".join(parts[: 2 if parts[0] in _SCHEMES else 1])
    raise BadSettings(
        f"zookeeper_access.{setting}: {shown!r} names no account; write digest:USER:HASH with the hash of user and password, "
        "sasl:NAME, or x509:SUBJECT with the subject of the certificate"
    )
