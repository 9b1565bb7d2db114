"""The consumer's interface over HTTP: status, health, metrics, and topic nodes for a detached consumer.

The standard library's threading server adds no event loop beside Spark's gateway in the driver, and no dependency. On
loopback, every user of this machine may read without a token; any other address requires a token. Posting a topic node
always requires a token, because the node may remove the topic.

Web pages get no answer: a request with an `Origin`, or to another host name than this consumer's, is refused.
"""

import ipaddress
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from coordinator_tasks.core.codecs.status_codec import encode_status
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.fleet.interface_addresses import is_loopback
from coordinator_tasks.core.model import Condition, ConsumerStatus
from coordinator_tasks.core.names import STATUS_PATH
from coordinator_tasks.core.text.json_fields import MAX_BYTES
from coordinator_tasks.exposition import CONTENT_TYPE
from coordinator_tasks.http_connections import BoundedHandler, BoundedServer
from coordinator_tasks.status_tokens import StatusTokens
from coordinator_tasks.tls_files import TlsFiles
from spark_apps.agent.interface.served_certificate import ServedCertificate

HEALTH_PATH = "/v1/health"
METRICS_PATH = "/metrics"
_TOPIC_PATH = re.compile(r"/v1/topics/([A-Za-z0-9._-]{1,249})")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Interface:
    """The sources of the server's answers. Set after the server starts: the registration needs its address.

    `post` takes a topic and the bytes of a topic node; False = unknown topic; raises `Malformed`. `condition` computes
    no status. `metrics` returns text in Prometheus' format. `None` = the agent does not exist yet.
    """

    status: Callable[[], ConsumerStatus | None] = lambda: None
    post: Callable[[str, bytes], bool] = lambda _topic, _raw: False
    condition: Callable[[], Condition] = lambda: Condition.STARTING
    metrics: Callable[[], bytes | None] = lambda: None


class StatusServer:
    """Listens from construction until `close`. `port` 0 takes a free port; `address` is the address to register.

    `advertised`: the URL for other hosts, if different from the bound address; `own_name`: this host's name in
    `address`, if different from the bound name. With `tls` the server speaks HTTPS. Raises `Refused` for an unusable
    address or certificate, and for an address other than loopback without a token.
    """

    def __init__(
        self,
        interface: Interface,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: StatusTokens | None = None,
        advertised: str = "",
        tls: TlsFiles | None = None,
        own_name: str = "",
    ) -> None:
        tokens = tokens or StatusTokens()
        if not tokens.all() and not is_loopback(host):
            raise Refused(
                f"the status interface would listen on {host} without a token, open to the network; "
                "set a status token, or listen on 127.0.0.1"
            )
        named = ("localhost", host, own_name, socket.gethostname(), urlsplit(advertised).hostname)
        names = frozenset(name.lower() for name in named if name)
        given = {"interface": interface, "tokens": tokens, "names": names}
        certificate = ServedCertificate(tls) if tls and (tls.certificate or tls.key) else None
        try:
            wrap = certificate.wrap if certificate else None
            self._server = BoundedServer((host, port), type("BoundHandler", (_Handler,), given), wrap)
        except (OSError, OverflowError) as error:
            raise Refused(f"the status interface cannot listen on {host}:{port} ({error}); choose another") from error
        bound = self._server.server_address[1]
        shown = own_name or host
        reached = _reachable(f"[{shown}]" if ":" in shown else shown)
        self.address = f"{'https' if certificate else 'http'}://{reached}:{bound}"
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.1,), name="agent-status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    server_version = "consumer"
    sys_version = ""
    interface: Interface
    tokens: StatusTokens
    names: frozenset[str]

    def do_GET(self) -> None:  # noqa: N802 - the base class looks for it
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the unread body must not be parsed as a request
        if self.path == HEALTH_PATH:  # no token: load balancers have none, and the answer is only up or down
            found = self.interface.condition()
            up = found in (Condition.OK, Condition.DETACHED)
            self._answer(HTTPStatus.OK if up else HTTPStatus.SERVICE_UNAVAILABLE, {"health": found.value})
        elif self._allowed(needs_token=False):
            self._show()

    def _show(self) -> None:
        starting = (HTTPStatus.SERVICE_UNAVAILABLE, {"health": "starting"})
        if self.path == METRICS_PATH:
            metrics = self.interface.metrics()
            self._answer(*starting) if metrics is None else self.send(HTTPStatus.OK, metrics, CONTENT_TYPE)
        elif self.path == STATUS_PATH:
            status = self.interface.status()
            self._answer(*starting) if status is None else self.send(HTTPStatus.OK, encode_status(status))
        else:
            known = f"there are {STATUS_PATH}, {METRICS_PATH} and {HEALTH_PATH}"
            self._answer(HTTPStatus.NOT_FOUND, {"error": known})

    def do_POST(self) -> None:  # noqa: N802 - the base class looks for it
        self.close_connection = True  # the unread body must not be parsed as a request
        if not self._allowed(needs_token=True):
            return
        match = _TOPIC_PATH.fullmatch(self.path)
        length = self.headers.get("Content-Length", "")
        if match is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is /v1/topics/[TOPIC]"})
        elif not (length.isascii() and length.isdigit()):
            self._answer(HTTPStatus.LENGTH_REQUIRED, {"error": "the length of the topic node is missing"})
        elif len(length) > 9 or int(length) > MAX_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"a topic node has at most {MAX_BYTES} bytes"})
        else:
            self._take(match.group(1), self.read_body(int(length)))

    def _take(self, topic: str, body: bytes) -> None:
        try:
            taken = self.interface.post(topic, body)
        except CoordinatorError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            return
        code = HTTPStatus.OK if taken else HTTPStatus.NOT_FOUND
        self._answer(code, {"taken": taken})

    def _allowed(self, needs_token: bool) -> bool:
        """Return whether to answer the request. Refuse a forbidden request before any computation."""
        tokens = self.tokens.all()
        if not self._is_for_us():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, {"error": "the host is not this consumer's"})
        elif "Origin" in self.headers:
            self._answer(HTTPStatus.FORBIDDEN, {"error": "web pages get no answer"})
        elif needs_token and not tokens:
            self._answer(HTTPStatus.FORBIDDEN, {"error": "without a status token no topic node is taken; set one"})
        elif tokens and not self.brings_one_of(tokens):
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "the token is missing or wrong"})
        else:
            return True
        return False

    def _is_for_us(self) -> bool:
        """Return whether the request's host is an IP address or a name of this consumer.

        A foreign web page can let its own host name point to this consumer, but its requests then carry that name.
        """
        hosts = self.headers.get_all("Host", [])
        match = _HOST.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
        name = match.group(1).strip("[]").lower() if match is not None else ""
        return name in self.names or _is_address(name)

    def _answer(self, code: HTTPStatus, body: Mapping[str, object]) -> None:
        self.send(code, json.dumps(body).encode())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _reachable(host: str) -> str:
    """Return an address for other hosts, with this host's name in place of a wildcard."""
    everywhere = ("0.0.0.0", "[::]", "")  # noqa: S104 - compared, not bound
    return socket.gethostname() if host in everywhere else host
