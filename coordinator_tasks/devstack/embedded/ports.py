"""Free TCP ports on the loopback address, below the kernel's range for outgoing connections.

A port of the kernel's range could be taken by any client's connection before the server binds it. A lock file for each
port, which is held until the choosing process ends, keeps two of our processes from choosing the same port.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from coordinator_tasks.devstack.embedded.errors import EmbeddedError

HOST = "127.0.0.1"
FIRST_PORT = 10_000
LAST_PORT = 32_000
ATTEMPTS_MAX = 200
CONNECT_S = 0.5

_leases: dict[int, int] = {}
"""Port → descriptor of its lock. The descriptors stay open on purpose."""


def free_port() -> int:
    """Return a port without a listener. This function gives the port to no other process."""
    for _ in range(ATTEMPTS_MAX):
        port = random.randint(FIRST_PORT, LAST_PORT)
        if port not in _leases and _bindable(port) and _lease(port):
            return port
    raise EmbeddedError(
        f"no free port between {FIRST_PORT} and {LAST_PORT} after {ATTEMPTS_MAX} tries: stop what listens there and retry"
    )


def listening(port: int) -> bool:
    """Return whether a process accepts connections on this loopback port."""
    try:
        with socket.create_connection((HOST, port), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _lease(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / f"coordinator-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _leases[port] = descriptor
    return True
