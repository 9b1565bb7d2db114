"""A server of raw bytes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from coordinator_tasks.devstack.embedded.ports import HOST


@contextmanager
def answering(raw: bytes) -> Iterator[int]:
    """Yield a port at which every connection gets these bytes for its first request, and is closed."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(10_000)
                    connection.sendall(raw)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)
