"""Versions of servers, and ZooKeeper's limit for a request, asked on separate connections before any log-in.

ZooKeeper answers the word `srvr` with its version, if the server allows this word. Kafka's protocol has no release
number, but a broker reports the newest `metadata.version` that it supports (`ApiVersions`, KIP-584), and each release
raises this number. confluent-kafka 2.16 has no call that returns `ApiVersions`.

No command of a ZooKeeper server reports `jute.maxbuffer`. But a request begins with its length, and the server hangs up
at once if the length is above the limit. So only a length is sent.
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess

LIMIT_S = 3.0
MAX_BYTES = 64 * 1024
NOT_TOLD = "not told"
TAKES, REFUSES = "takes it", "refuses it"
HANG_UP_S = 0.7
"""Seconds that a server may take to hang up on a length above its limit."""
RELEASES = {21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3"}
"""Newest `metadata.version` → release of Kafka (`kafka-features.sh version-mapping`)."""
_API_VERSIONS, _VERSION = 18, 3
_FEATURE = b"metadata.version"
Context = Callable[[], ssl.SSLContext | None]


def zookeeper_versions(hosts: str, access: ZooKeeperAccess) -> dict[str, str]:
    """Return server → version, for all servers of a connect string."""
    return _of_each(_zookeeper, hosts, access)


def zookeeper_takes(hosts: str, access: ZooKeeperAccess, size: int) -> dict[str, str]:
    """Return server → `TAKES`, `REFUSES` or `NOT_TOLD` for a request of `size` bytes."""

    def ask(connection: socket.socket) -> str:
        connection.settimeout(HANG_UP_S)
        connection.sendall(struct.pack(">i", size))
        try:
            return TAKES if connection.recv(1) else REFUSES
        except TimeoutError:  # the server accepts the length and waits for the remaining bytes
            return TAKES
        except (ConnectionError, ssl.SSLError):
            return REFUSES

    return _of_each(ask, hosts, access)


def _of_each(ask: Callable[[socket.socket], str], hosts: str, access: ZooKeeperAccess) -> dict[str, str]:
    """Return server → answer, for the servers of a connect string."""

    def context() -> ssl.SSLContext | None:
        return _context(access.ca, access.certificate, access.key, access.key_password) if access.tls else None

    return {one: _asked(ask, one, 2181, context) for one in hosts.partition("/")[0].split(",")}


def kafka_versions(brokers: Sequence[str], kafka: Mapping[str, str]) -> dict[str, str]:
    """Return broker → release, derived from the broker's newest `metadata.version`."""

    def context() -> ssl.SSLContext | None:
        if not kafka.get("security.protocol", "").upper().endswith("SSL"):
            return None
        names = ("ca.location", "certificate.location", "key.location", "key.password")
        made = _context(*(kafka.get(f"ssl.{name}", "") for name in names))
        made.check_hostname = kafka.get("ssl.endpoint.identification.algorithm") != "none"
        return made

    return {one: _asked(_kafka, one, 9092, context) for one in brokers}


def _context(ca: str, certificate: str, key: str, key_password: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca or None)
    if certificate:
        context.load_cert_chain(certificate, key or None, key_password)
    return context


def _asked(ask: Callable[[socket.socket], str], server: str, default_port: int, context: Context) -> str:
    """Return a server's answer. Silence is no error, because the earlier log-in has succeeded."""
    host, _, port = server.strip().rpartition(":")
    host, port = (host.strip("[]"), port) if host else (port, str(default_port))
    try:
        with closing(socket.create_connection((host, int(port)), LIMIT_S)) as plain:
            secure = context()
            connection = plain if secure is None else secure.wrap_socket(plain, server_hostname=host)
            with closing(connection):
                return ask(connection) or NOT_TOLD
    except (OSError, ValueError, struct.error):
        return NOT_TOLD


def _zookeeper(connection: socket.socket) -> str:
    connection.sendall(b"srvr")
    said = connection.recv(1024).decode("ascii", "replace")
    label, _, rest = said.partition("\n")[0].partition(": ")
    return rest.partition("-")[0][:20] if label.lower() == "zookeeper version" else ""


def _kafka(connection: socket.socket) -> str:
    name = b"coordinator"
    compact = bytes([len(name) + 1]) + name
    body = struct.pack(">hhih", _API_VERSIONS, _VERSION, 1, len(name)) + name + b"\0" + compact + b"\x020" + b"\0"
    connection.sendall(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 0 < size <= MAX_BYTES:
        return ""
    return _release(_read(connection, size))


def _read(connection: socket.socket, size: int) -> bytes:
    parts, deadline_s = b"", time.monotonic() + LIMIT_S
    while len(parts) < size:
        if time.monotonic() > deadline_s:
            raise TimeoutError
        if not (part := connection.recv(size - len(parts))):
            raise OSError("the broker hung up")
        parts += part
    return parts


def _release(answer: bytes) -> str:
    """Return the release by the answer's supported range of the first feature: name, lowest level, highest level."""
    at = answer.find(bytes([len(_FEATURE) + 1]) + _FEATURE)
    if at < 0:
        return ""
    _, level = struct.unpack_from(">hh", answer, at + 1 + len(_FEATURE))
    oldest, newest = min(RELEASES), max(RELEASES)
    if level < oldest:
        return f"before {RELEASES[oldest]}"
    return next((release for last, release in RELEASES.items() if level <= last), f"after {RELEASES[newest]}")
