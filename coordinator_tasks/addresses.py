"""Checks of the addresses of ZooKeeper and Kafka, in a normalized spelling.

No error shows the address, because it may contain a password.
"""

import re

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.names import MAX_HOST_CHARS, MAX_PORT

MAX_FOLDER_CHARS = 1_000
MAX_SERVERS = 100
_ZOOKEEPER = "set `zookeeper` (COORDINATOR_ZOOKEEPER) to host:port,host:port/folder"
_KAFKA = "set `kafka`'s bootstrap.servers (COORDINATOR_KAFKA_BOOTSTRAP_SERVERS) to host:port,host:port"
_PROTOCOL = re.compile(r"(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://", re.IGNORECASE)
"""The protocols that librdkafka accepts before a broker's address."""
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|(?P<host>[^\s\[\]@/?#%:\\]+))(?::(?P<port>[0-9]{1,5}))?")
_NO_FOLDER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff%?#\\]")
"""Characters that ZooKeeper refuses in a path, or that have a meaning in the URL of a page."""


def zookeeper_address(text: str) -> str:
    """Return `host:port,host:port[/folder]`, without spaces and without a slash at the end; raises `BadSettings`."""
    if "://" in text:
        raise BadSettings(f"the ZooKeeper address begins with the scheme of a URI; {_ZOOKEEPER}, without it")
    hosts, _, folder = text.strip().partition("/")
    servers = _servers(hosts, "ZooKeeper", _ZOOKEEPER)
    folder = folder.rstrip("/")
    parts = folder.split("/")
    if folder and (
        len(folder) > MAX_FOLDER_CHARS
        or _NO_FOLDER.search(folder)
        or any(one.strip() in ("", ".", "..") or one != one.strip() for one in parts)
        or parts[0] == "zookeeper"
    ):
        raise BadSettings(
            f"the folder in the ZooKeeper address is no path of ZooKeeper: it has an empty part, '.', '..', '%', a control character or "
            f"more than {MAX_FOLDER_CHARS:,} characters, or is ZooKeeper's own; {_ZOOKEEPER}"
        )
    return f"{servers}/{folder}" if folder else servers


def kafka_address(text: str) -> str:
    """Return `host:port,host:port`, each with its protocol if given, without spaces; raises `BadSettings`."""
    return _servers(text, "Kafka", _KAFKA, _PROTOCOL)


def _servers(text: str, whose: str, remedy: str, before: re.Pattern[str] | None = None) -> str:
    found = [one.strip() for one in text.split(",") if one.strip()]
    if not found:
        raise BadSettings(f"no {whose} address is set; {remedy}")
    if len(found) > MAX_SERVERS:
        raise BadSettings(f"the {whose} address names more than {MAX_SERVERS} servers; {remedy}")
    for place, one in enumerate(found, 1):
        protocol = before.match(one) if before else None
        server = _SERVER.fullmatch(one[protocol.end() :] if protocol else one)
        wrong = (
            server is None or len(server["host"] or "") > MAX_HOST_CHARS or not 0 < int(server["port"] or 1) <= MAX_PORT
        )
        if wrong:
            raise BadSettings(
                f"server {place} of the {whose} address is no host:port; {remedy}, an address of IPv6 in brackets, and user and "
                "password in their own settings"
            )
    return ",".join(found)
