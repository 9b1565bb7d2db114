"""The consumer's own interface over HTTP: its status, its health, and the topic node for a detached consumer.

The standard library's threading server: no event loop beside Spark's gateway in the driver, nothing more to install,
and one small answer at a time. On loopback anybody of this machine may ask; any other address requires a token.
"""

import hmac
import ipaddress
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.fields import MAX_BYTES
from coordinator_tasks.core.model import ConsumerStatus
from coordinator_tasks.core.status_codec import encode_status

IDLE_TIMEOUT_S = 15.0
MAX_CONNECTIONS = 64
_TOPIC_PATH = re.compile(r"/v1/topics/([A-Za-z0-9._-]{1,249})")

log = logging.getLogger(__name__)


class Interface:
    """What the server answers from, as soon as it is there: the server's address is part of the registration."""

    def __init__(self) -> None:
        self._status: Callable[[], ConsumerStatus] | None = None
        self._post: Callable[[str, bytes], bool] | None = None

    def serve(self, status: Callable[[], ConsumerStatus], post: Callable[[str, bytes], bool]) -> None:
        """Answer from now on. `post` takes a topic and a topic node's bytes; False = no such topic here."""
        self._status, self._post = status, post

    def status(self) -> ConsumerStatus | None:
        """`None` before the agent is there."""
        return None if self._status is None else self._status()

    def post(self, topic: str, raw: bytes) -> bool:
        """Whether the topic node was taken; may raise `Malformed`."""
        return False if self._post is None else self._post(topic, raw)


class StatusServer:
    """Listens from its making until `close`. `port` 0 takes a free one; `address` is what others ask.

    Raises `Refused` for an address other than loopback without a token, or one that cannot be bound.
    """

    def __init__(self, interface: Interface, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        if not token and not _is_loopback(host):
            raise Refused(
                f"the status interface would listen on {host} without a token, open to the network; "
                "set a status token, or listen on 127.0.0.1"
            )
        handler = type("BoundHandler", (_Handler,), {"interface": interface, "token": token})
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            raise Refused(f"the status interface cannot listen on {host}:{port} ({error}); choose another") from error
        bound = self._server.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{_reachable(shown)}:{bound}"
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.1,), name="agent-status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering; the port refuses from now on."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._connections.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.discard(request)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        log.debug("a request from %s was broken off", client_address, exc_info=True)

    def end_connections(self) -> None:
        for connection in list(self._connections):
            self.shutdown_request(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "consumer"
    sys_version = ""
    timeout = IDLE_TIMEOUT_S
    disable_nagle_algorithm = True
    interface: Interface
    token: str

    def do_GET(self) -> None:
        status = self.interface.status()
        if status is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"health": "starting"})
        elif self.path == "/v1/health":  # open: load balancers know no token, and it says no more than up or down
            health = status.health
            up = health in ("ok", "detached")
            self._answer(HTTPStatus.OK if up else HTTPStatus.SERVICE_UNAVAILABLE, {"health": health})
        elif not self._allowed():
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "the token is missing or wrong"})
        elif self.path == "/v1/status":
            self._send(HTTPStatus.OK, encode_status(status))
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there are /v1/status and /v1/health"})

    def do_POST(self) -> None:
        self.close_connection = True  # whatever of the body is not read must not be taken for a request
        match = _TOPIC_PATH.fullmatch(self.path)
        length = self.headers.get("Content-Length", "")
        if not self._allowed():
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "the token is missing or wrong"})
        elif match is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is /v1/topics/[TOPIC]"})
        elif not (length.isascii() and length.isdigit()):
            self._answer(HTTPStatus.LENGTH_REQUIRED, {"error": "the length of the topic node is missing"})
        elif len(length) > 9 or int(length) > MAX_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"a topic node has at most {MAX_BYTES} bytes"})
        else:
            self._take(match.group(1), self.rfile.read(int(length)))

    def _take(self, topic: str, body: bytes) -> None:
        try:
            taken = self.interface.post(topic, body)
        except CoordinatorError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            return
        code = HTTPStatus.OK if taken else HTTPStatus.NOT_FOUND
        self._answer(code, {"taken": taken})

    def _allowed(self) -> bool:
        if not self.token:
            return True
        given = self.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode())

    def _answer(self, code: HTTPStatus, body: Mapping[str, object]) -> None:
        self._send(code, json.dumps(body).encode())

    def _send(self, code: HTTPStatus, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's
        log.debug(format, *arguments)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reachable(host: str) -> str:
    """What others can ask: an address that stands for all of them is replaced by this host's name."""
    everywhere = ("0.0.0.0", "[::]", "")  # noqa: S104 - compared, not bound
    return socket.gethostname() if host in everywhere else host
