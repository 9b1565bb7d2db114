"""The consumer's own interface, over real sockets on loopback.

401 without the token or with a wrong token. 403 with `Origin`, and for a topic node while no token is set. 421 for another host
name. One deadline of 10 s for handshake, request and answer; slow connections keep no other client out.
"""

import errno
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import ThreadingHTTPServer

import pytest

from coordinator_tasks import http_connections
from coordinator_tasks.adapters.status import HttpStatusClient
from coordinator_tasks.core.codecs.status_codec import decode_status
from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.model import Condition, ConsumerStatus, Member
from coordinator_tasks.status_tokens import StatusTokens
from spark_apps.agent.interface.status_server import Interface, StatusServer

TOKEN = "secret"


class Consumer:
    def __init__(self) -> None:
        self.condition = Condition.OK
        self.posted: list[tuple[str, bytes]] = []
        self.asked = 0

    def status(self) -> ConsumerStatus:
        self.asked += 1
        return ConsumerStatus("a", "c", 3, "boot", self.condition.value, condition=self.condition)

    def post(self, topic: str, raw: bytes) -> bool:
        if raw == b"nonsense":
            raise Malformed(topic, "is not JSON")
        self.posted.append((topic, raw))
        return topic == "t"


def serving(consumer: Consumer) -> Interface:
    return Interface(consumer.status, consumer.post, lambda: consumer.condition, lambda: b"metrics")


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture(params=["", TOKEN], ids=["open", "with a token"])
def server(consumer: Consumer, request: pytest.FixtureRequest) -> Iterator[tuple[StatusServer, str]]:
    made = StatusServer(serving(consumer), tokens=StatusTokens(request.param))
    yield made, request.param
    made.close()


@pytest.fixture
def closed(consumer: Consumer) -> Iterator[StatusServer]:
    """Asks for a token."""
    made = StatusServer(serving(consumer), tokens=StatusTokens(TOKEN), advertised="http://orders.example:80")
    yield made
    made.close()


def ask(
    server: StatusServer, method: str, path: str, token: str = "", body: bytes | None = None, **more: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=5)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= more
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def slow(server: StatusServer, said: bytes = b"GET /v1/status HTTP/1.1\r\nHost: ") -> socket.socket:
    """A connection with an unfinished request."""
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.sendall(said)
    return connection


def ends_within(connection: socket.socket, said: bytes) -> float:
    """Seconds until the server ends a connection on which these bytes come now and then."""
    began_s = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() < began_s + 5.0:
        try:
            connection.sendall(said)
            if not connection.recv(1000):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began_s


def is_closed(connection: socket.socket) -> bool:
    """Whether the server ends the connection in the end."""
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_status_and_metrics_are_given_to_who_knows_the_token(server: tuple[StatusServer, str]) -> None:
    one, token = server
    code, body = ask(one, "GET", "/v1/status", token)
    assert (code, decode_status("x", body).incarnation) == (200, 3)
    assert not token or token.encode() not in body
    assert ask(one, "GET", "/metrics", token) == (200, b"metrics")


@pytest.mark.parametrize("token", ["", "wrong"])
def test_nothing_is_computed_for_who_has_no_token(closed: StatusServer, consumer: Consumer, token: str) -> None:
    assert [ask(closed, "GET", path, token)[0] for path in ("/v1/status", "/metrics")] == [401, 401]
    assert ask(closed, "POST", "/v1/topics/t", token, b"{}")[0] == 401
    assert (consumer.asked, consumer.posted) == (0, [])


def test_health_is_up_or_down_for_load_balancers_without_a_reason(closed: StatusServer, consumer: Consumer) -> None:
    assert ask(closed, "GET", "/v1/health")[0] == 200
    consumer.condition = Condition.FAILED
    assert ask(closed, "GET", "/v1/health") == (503, b'{"health": "failed"}')
    assert consumer.asked == 0


def test_without_a_token_of_its_own_no_topic_node_is_taken(consumer: Consumer) -> None:
    one = StatusServer(serving(consumer))
    try:
        codes = {ask(one, "POST", "/v1/topics/t", token, b'{"removed":true}')[0] for token in ("", "any")}
    finally:
        one.close()
    assert (codes, consumer.posted) == ({403}, [])


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:80", "", "a b", "localhost.rebound.example"])
def test_another_host_name_is_refused(closed: StatusServer, consumer: Consumer, host: str) -> None:
    assert ask(closed, "GET", "/v1/status", TOKEN, Host=host)[0] == 421
    assert ask(closed, "POST", "/v1/topics/t", TOKEN, b"{}", Host=host)[0] == 421
    assert (consumer.asked, consumer.posted) == (0, [])


@pytest.mark.parametrize(
    "host", ["localhost:1", "127.0.0.1", "[::1]:80", "10.1.2.3:9", socket.gethostname(), "ORDERS.example"]
)
def test_its_own_names_and_addresses_are_answered(closed: StatusServer, host: str) -> None:
    assert ask(closed, "GET", "/v1/status", TOKEN, Host=host)[0] == 200


def test_a_web_page_gets_no_answer(server: tuple[StatusServer, str], consumer: Consumer) -> None:
    one, token = server
    assert ask(one, "GET", "/v1/status", token, Origin="http://127.0.0.1")[0] == 403
    assert ask(one, "POST", "/v1/topics/t", token, b"{}", Origin="null")[0] == 403
    assert ask(one, "OPTIONS", "/v1/topics/t", token)[0] == 501
    assert (consumer.asked, consumer.posted) == (0, [])


def test_slow_connections_keep_nobody_out(closed: StatusServer) -> None:
    before = threading.active_count()
    with ExitStack() as ending:
        for _ in range(2 * http_connections.MAX_CONNECTIONS):
            ending.enter_context(slow(closed))
        for _ in range(3):
            began_s = time.monotonic()
            assert ask(closed, "GET", "/v1/status", TOKEN)[0] == 200
            assert time.monotonic() - began_s < 2.0, "as long as the coordinator waits"
        assert threading.active_count() - before <= http_connections.MAX_CONNECTIONS


def test_the_slowest_connection_is_dropped_first(closed: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "REQUEST_S", 60.0)
    with ExitStack() as ending:
        first, *others = [ending.enter_context(slow(closed)) for _ in range(http_connections.MAX_CONNECTIONS)]
        assert ask(closed, "GET", "/v1/status", TOKEN)[0] == 200
        assert is_closed(first)
        for one in others:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)


def test_a_request_has_one_deadline_whenever_bytes_come(closed: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "REQUEST_S", 0.4)
    body = (
        b"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 999\r\n\r\n"
    )
    for said in (b"GET", body):
        with slow(closed, said) as one:
            assert ends_within(one, b"x") < 5.0


def test_a_head_without_an_end_is_cut_off(closed: StatusServer) -> None:
    with slow(closed) as one, pytest.raises((BrokenPipeError, ConnectionResetError)):
        one.sendall(b"x\r\nX: " * 10_000_000)


def test_a_body_that_is_cut_short_is_no_topic_node(closed: StatusServer, consumer: Consumer) -> None:
    head = (
        b"POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 3\r\n\r\n{}"
    )
    with slow(closed, head) as one:
        one.shutdown(socket.SHUT_WR)
        assert is_closed(one)
    assert consumer.posted == []


def test_what_follows_the_body_of_a_get_is_no_request(closed: StatusServer, consumer: Consumer) -> None:
    inner = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
    head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner)
    with slow(closed, head + inner) as one:
        while one.recv(1000):
            continue
    assert consumer.asked == 0


def test_a_topic_node_is_taken_and_what_cannot_be_one_is_refused(closed: StatusServer, consumer: Consumer) -> None:
    one, token = closed, TOKEN
    assert ask(one, "POST", "/v1/topics/t", token, b'{"epoch":3}')[0] == 200
    assert consumer.posted == [("t", b'{"epoch":3}')]
    assert ask(one, "POST", "/v1/topics/other", token, b"{}")[0] == 404
    assert ask(one, "POST", "/v1/topics/t", token, b"nonsense")[0] == 400
    assert ask(one, "POST", "/v1/topics/a%2fb", token, b"{}")[0] == 404
    assert ask(one, "GET", "/", token)[0] == 404


def test_a_body_that_is_too_long_is_not_read(closed: StatusServer) -> None:
    one, token = closed, TOKEN
    connection = http.client.HTTPConnection(one.address.removeprefix("http://"), timeout=5)
    connection.putrequest("POST", "/v1/topics/t")
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Length", "1000000000")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    ("own_name", "shown"),
    [("10.88.0.7", "10.88.0.7"), ("fd00::7", "[fd00::7]"), ("node-3", "node-3"), ("", socket.gethostname())],
)
def test_a_listener_on_all_addresses_registers_a_reachable_name(consumer: Consumer, own_name: str, shown: str) -> None:
    made = StatusServer(serving(consumer), "0.0.0.0", tokens=StatusTokens(TOKEN), own_name=own_name)
    try:
        port = made.address.rpartition(":")[2]
        assert made.address == f"http://{shown}:{port}"
        asked = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
        asked.request("GET", "/v1/status", headers={"Host": f"{shown}:{port}", "Authorization": f"Bearer {TOKEN}"})
        assert asked.getresponse().status == 200
        asked.close()
    finally:
        made.close()


def test_an_address_open_to_the_network_demands_a_token(consumer: Consumer) -> None:
    interface = serving(consumer)
    with pytest.raises(Refused, match="set a status token"):
        StatusServer(interface, "0.0.0.0")
    StatusServer(interface, "0.0.0.0", tokens=StatusTokens("secret")).close()


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_there_is_not_is_refused(port: int) -> None:
    with pytest.raises(Refused, match=rf"cannot listen on 127\.0\.0\.1:{port}.*; choose another"):
        StatusServer(Interface(), port=port)


def test_a_shortage_of_open_files_takes_no_processor(closed: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that cannot be taken waits, and wakes the server again at once."""
    tried: list[float] = []

    def get_request(_: object) -> None:
        tried.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ThreadingHTTPServer, "get_request", get_request)
    with slow(closed):
        time.sleep(0.5)
    assert 0 < len(tried) < 20


def test_it_listens_without_asking_dns_for_the_name_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("a resolver that is away holds up the start"))
    StatusServer(Interface()).close()


def test_a_closed_server_refuses(consumer: Consumer) -> None:
    one = StatusServer(serving(consumer))
    one.close()
    # Reset where a process in the middle of a fork holds the socket for a moment longer.
    with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
        ask(one, "GET", "/v1/health")


def test_the_coordinator_s_own_client_is_served(closed: StatusServer, consumer: Consumer) -> None:
    client = HttpStatusClient("c", StatusTokens(TOKEN))
    member = Member("a", 3, closed.address, "boot")
    try:
        assert client.ask([member]) == {"a": consumer.status()}
        assert client.post_topic(member, "t", b'{"epoch":3}')
        assert not client.post_topic(member, "other", b"{}")
    finally:
        client.close()
    assert consumer.posted == [("t", b'{"epoch":3}'), ("other", b"{}")]
