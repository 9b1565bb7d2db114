"""The connections of our HTTP interfaces: few threads, and one deadline for each request, including the TLS handshake.

Any host that reaches the port can open connections and send nothing. If all places are taken, a new connection replaces
the slowest. So proper requests are always answered.
"""

import errno
import hmac
import io
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from coordinator_tasks.core.names import MAX_PORT

MAX_CONNECTIONS = 32
REQUEST_S = 10.0
"""Seconds from the accepted connection, or from its last answer, to the last byte of the next answer. Longer than the
coordinator keeps a connection.
"""
MAX_HEAD_BYTES = 16 * 1024
DROP_S = 0.2  # seconds that the thread of a dropped connection may take to end
SHORTAGE_S = 0.2  # seconds to pause when this process can open no more files

log = logging.getLogger(__name__)


def host_and_port(text: str) -> tuple[str, int] | None:
    """Return the parts of `host:port`. The brackets of an IPv6 address are removed; `None` if invalid."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    digits = port.isascii() and port.isdigit() and len(port) <= len(str(MAX_PORT))
    return (host, int(port)) if host and digits and int(port) <= MAX_PORT else None


class BoundedServer(ThreadingHTTPServer):
    """A server with one thread for each connection, at most `MAX_CONNECTIONS`.

    `wrap` puts a connection into TLS. The connection's thread makes the handshake.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type["BoundedHandler"],
        wrap: Callable[[socket.socket], ssl.SSLSocket] | None = None,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._wrap = wrap
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, tuple[str, float]] = {}  # the remote host, and when its request began
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind the address. The base class would also ask DNS for its name."""
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError as error:
            # the connection stays in the queue, and accepting it would fail again at once
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(SHORTAGE_S)
            raise
        return connection if self._wrap is None else self._wrap(connection), address

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
        """Start the time of the connection's next request, because the last request is answered."""
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
                _end(slowest)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        log.debug("a request from %s was broken off", client_address, exc_info=True)

    def end_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                _end(connection)


def _end(connection: socket.socket) -> None:
    """End a connection, even while another thread uses it."""
    with suppress(OSError):
        # SSLSocket's own method first drops the encryption. The other thread could then send its answer in plain text.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads and writes within the time left for the request. Reads at most `MAX_HEAD_BYTES` before the body."""

    disable_nagle_algorithm = True
    server: BoundedServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.wfile.close()
        self._stream = _Stream(self.connection)
        self._stream.begin()
        self._stream.handshake()
        self.rfile = io.BufferedReader(self._stream)
        self.wfile = self._stream  # type: ignore[assignment]  # written to, flushed and closed only

    def handle_one_request(self) -> None:
        super().handle_one_request()
        self.server.began(self.connection)
        self._stream.begin()

    def read_body(self, length: int) -> bytes:
        """Return `length` bytes; raises `ConnectionError` if the connection ends earlier."""
        self._stream.allowed += length
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError("the connection ended within the body of a request")
        return body

    def brings_one_of(self, tokens: Collection[str]) -> bool:
        given = self.headers.get("Authorization", "").encode()
        return any(hmac.compare_digest(given, f"Bearer {token}".encode()) for token in tokens)

    def send(self, code: HTTPStatus, body: bytes, kind: str = "application/json") -> None:
        """Send an answer that must not be cached."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's
        log.debug(format, *arguments)


class _Stream(io.RawIOBase):
    """The bytes of a connection in both directions, with a deadline, and with a limit for the bytes read."""

    def __init__(self, connection: socket.socket) -> None:
        self.allowed = 0
        self._connection = connection
        self._until_s = 0.0

    def begin(self) -> None:
        self.allowed, self._until_s = MAX_HEAD_BYTES, time.monotonic() + REQUEST_S

    def _limit(self) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the request took longer than {REQUEST_S:g} s")
        self._connection.settimeout(left_s)

    def handshake(self) -> None:
        self._limit()
        if isinstance(self._connection, ssl.SSLSocket):
            self._connection.do_handshake()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write all of `data` before the deadline. The `sendall` of a TLS socket gives each part the whole time."""
        left = memoryview(data).cast("B")
        while left:
            self._limit()
            left = left[self._connection.send(left) :]
        return len(data)

    def readinto(self, buffer: Any) -> int:
        self._limit()
        if self.allowed <= 0:
            raise ConnectionAbortedError("the request is too long")
        count = self._connection.recv_into(memoryview(buffer)[: self.allowed])
        self.allowed -= count
        return count
