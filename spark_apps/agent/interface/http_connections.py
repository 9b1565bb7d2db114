"""The connections of the consumer's interface: few threads, and one deadline for a request.

Anybody who reaches the port can open connections and send nothing. When all places are taken, a new connection takes the
place of the slowest one, so that the coordinator always gets in.
"""

import io
import logging
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_CONNECTIONS = 32
REQUEST_S = 10.0
"""From the accept or the last answer to the last byte of the next answer; longer than httpx keeps a connection."""
MAX_HEAD_BYTES = 16 * 1024
DROP_S = 0.2  # how long the thread of a dropped connection may take to end

log = logging.getLogger(__name__)


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection, at most `MAX_CONNECTIONS`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type["BoundedHandler"]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, tuple[str, float]] = {}  # its remote host, and since when its request lasts
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self._drop_slowest()
            if not self._places.acquire(timeout=DROP_S):
                self.shutdown_request(request)
                return
        with self._lock:
            self._open[request] = (client_address[0], time.monotonic())
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def began(self, connection: socket.socket) -> None:
        """Its last request is answered: its time begins again."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = (self._open[connection][0], time.monotonic())

    def _leave(self, connection: socket.socket) -> None:
        with self._lock:
            del self._open[connection]
        self._places.release()

    def _drop_slowest(self) -> None:
        """End the longest request of the host that has the most connections."""
        with self._lock:
            hosts = Counter(host for host, _ in self._open.values())
            slowest = min(self._open, key=lambda one: (-hosts[self._open[one][0]], self._open[one][1]), default=None)
            if slowest is not None:
                with suppress(OSError):
                    slowest.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        log.debug("a request from %s was broken off", client_address, exc_info=True)

    def end_connections(self) -> None:
        """End all of them."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads and writes with what is left of a request's time, and reads no more than `MAX_HEAD_BYTES` before its body."""

    disable_nagle_algorithm = True
    server: BoundedServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._reader = _Reader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self.server.began(self.connection)
        self._reader.begin()
        super().handle_one_request()

    def read_body(self, length: int) -> bytes:
        """So many bytes; raises `ConnectionError` if the connection ends before."""
        self._reader.allowed += length
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError("the connection ended within the body of a request")
        return body

    def before_writing(self) -> None:
        """What is written next may take what is left of the request's time."""
        self._reader.limit()


class _Reader(io.RawIOBase):
    """A connection's bytes, until a moment and up to a number."""

    def __init__(self, connection: socket.socket) -> None:
        self.allowed = 0
        self._connection = connection
        self._until_s = 0.0

    def begin(self) -> None:
        self.allowed, self._until_s = MAX_HEAD_BYTES, time.monotonic() + REQUEST_S

    def limit(self) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the request took longer than {REQUEST_S:g} s")
        self._connection.settimeout(left_s)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.limit()
        if self.allowed <= 0:
            raise ConnectionAbortedError("the request is too long")
        count = self._connection.recv_into(memoryview(buffer)[: self.allowed])
        self.allowed -= count
        return count
