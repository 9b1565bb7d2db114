"""The consumer's own interface, over real sockets on loopback."""

import http.client
from collections.abc import Iterator

import pytest

from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.model import ConsumerStatus
from coordinator_tasks.core.status_codec import decode_status
from spark_apps.agent.status_server import Interface, StatusServer


class Consumer:
    def __init__(self) -> None:
        self.health = "ok"
        self.posted: list[tuple[str, bytes]] = []

    def status(self) -> ConsumerStatus:
        return ConsumerStatus("a", "c", 3, "boot", self.health)

    def post(self, topic: str, raw: bytes) -> bool:
        if raw == b"nonsense":
            raise Malformed(topic, "is not JSON")
        self.posted.append((topic, raw))
        return topic == "t"


def serving(consumer: Consumer) -> Interface:
    interface = Interface()
    interface.serve(consumer.status, consumer.post)
    return interface


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture(params=["", "secret"], ids=["open", "with a token"])
def server(consumer: Consumer, request: pytest.FixtureRequest) -> Iterator[tuple[StatusServer, str]]:
    made = StatusServer(serving(consumer), token=request.param)
    yield made, request.param
    made.close()


def ask(server: StatusServer, method: str, path: str, token: str = "", body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=5)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_status_is_given_to_who_knows_the_token(server: tuple[StatusServer, str]) -> None:
    one, token = server
    code, body = ask(one, "GET", "/v1/status", token)
    assert (code, decode_status("x", body).incarnation) == (200, 3)
    if token:
        assert ask(one, "GET", "/v1/status")[0] == 401
        assert ask(one, "GET", "/v1/status", "wrong")[0] == 401
        assert ask(one, "POST", "/v1/topics/t", body=b"{}")[0] == 401
        assert token.encode() not in body


def test_health_is_up_or_down_for_load_balancers(server: tuple[StatusServer, str], consumer: Consumer) -> None:
    one, _ = server
    assert ask(one, "GET", "/v1/health")[0] == 200
    consumer.health = "leaving"
    assert ask(one, "GET", "/v1/health")[0] == 503


def test_a_topic_node_is_taken_and_what_cannot_be_one_is_refused(
    server: tuple[StatusServer, str], consumer: Consumer
) -> None:
    one, token = server
    assert ask(one, "POST", "/v1/topics/t", token, b'{"epoch":3}')[0] == 200
    assert consumer.posted == [("t", b'{"epoch":3}')]
    assert ask(one, "POST", "/v1/topics/other", token, b"{}")[0] == 404
    assert ask(one, "POST", "/v1/topics/t", token, b"nonsense")[0] == 400
    assert ask(one, "POST", "/v1/topics/a%2fb", token, b"{}")[0] == 404
    assert ask(one, "GET", "/", token)[0] == 404


def test_a_body_that_is_too_long_is_not_read(server: tuple[StatusServer, str]) -> None:
    one, token = server
    connection = http.client.HTTPConnection(one.address.removeprefix("http://"), timeout=5)
    connection.putrequest("POST", "/v1/topics/t")
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Length", "1000000000")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_an_address_open_to_the_network_demands_a_token(consumer: Consumer) -> None:
    interface = serving(consumer)
    with pytest.raises(Refused, match="set a status token"):
        StatusServer(interface, "0.0.0.0")
    StatusServer(interface, "0.0.0.0", token="secret").close()


def test_a_closed_server_refuses(consumer: Consumer) -> None:
    one = StatusServer(serving(consumer))
    one.close()
    # Reset where a process that is just being forked holds the socket for a moment longer.
    with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
        ask(one, "GET", "/v1/health")


def test_before_the_agent_is_there_it_says_that_it_starts() -> None:
    one = StatusServer(Interface())
    assert ask(one, "GET", "/v1/status")[0] == 503
    one.close()
