"""How to log in to ZooKeeper."""

import importlib.util
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import CREATOR_ALL_ACL

from coordinator_tasks.core.errors import Refused


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How to log in, all of it optional. Without `sasl_mechanism`, user and password go to ZooKeeper's digest scheme.

    `open_nodes`: nodes that we create may be read and written by anybody; otherwise only by this account, if there is
    one. `ca`, `certificate` and `key` are files in PEM; any of them turns TLS on.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    sasl_mechanism: str = ""
    open_nodes: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def client_options(self) -> dict[str, Any]:
        """Arguments of `KazooClient`; raises `Refused` when SASL is asked for and its library is missing."""
        options: dict[str, Any] = {}
        if self.sasl_mechanism:
            if importlib.util.find_spec("puresasl") is None:
                raise Refused("SASL to ZooKeeper needs the package pure-sasl, which is not installed; install it")
            login = {"username": self.user, "password": self.password} if self.user else {}
            options["sasl_options"] = {"mechanism": self.sasl_mechanism, **login}
        elif self.user:
            options["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        if options and not self.open_nodes:
            options["default_acl"] = CREATOR_ALL_ACL
        if self.ca or self.certificate:
            options |= {"use_ssl": True, "ca": self.ca or None, "check_hostname": True}
            options |= {"certfile": self.certificate or None, "keyfile": self.key or None}
        return options
