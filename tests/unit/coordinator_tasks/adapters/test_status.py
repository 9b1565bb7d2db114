"""The status client reads hostile answers within bounds, over real sockets.

2,000 characters of a text, 100 reports of a topic and 64 characters of a name are read. Compressed answers are refused unread.
One answer has one time limit, and all answers of a look share 32 MB. 2,000 silent registrations
take the time of one registration.
"""

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import h11
import pytest

from coordinator_tasks import http_connections
from coordinator_tasks.adapters import http_exchange, look_budget
from coordinator_tasks.adapters import status as status_module
from coordinator_tasks.adapters.status import DEFAULT_LIMIT_S, HttpStatusClient
from coordinator_tasks.core.codecs.status_codec import encode_status
from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.model import ConsumerStatus, Member, Silence, Unreachable
from coordinator_tasks.status_tokens import StatusTokens
from tests.fakes.raw_server import answering

STATUS = ConsumerStatus("a", "shop", 1, "boot", "ok")
LIMIT_S = 1.5


@dataclass
class Interface:
    """A consumer's interface with given answers, and a list of the requests."""

    body: bytes = encode_status(STATUS)
    code: int = 200
    delay: threading.Event | None = None
    more: dict[str, str] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)
    posts: list[tuple[str, bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def member(self) -> Member:
        return at(self.port)


def at(port: int, consumer: str = "a", scheme: str = "http") -> Member:
    return Member(consumer, 1, f"{scheme}://127.0.0.1:{port}", "boot")


def handler(interface: Interface) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            interface.headers.append({"path": self.path, "port": str(self.client_address[1]), **dict(self.headers)})
            if interface.delay is not None:
                interface.delay.wait(10.0)
            self.answer(interface.code, interface.body)

        def do_POST(self) -> None:
            interface.posts.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(interface.code, b"")

        def answer(self, code: int, body: bytes) -> None:
            with contextlib.suppress(OSError):
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                for name, value in interface.more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it so
            pass

    return Handler


@contextlib.contextmanager
def serving() -> Iterator[Interface]:
    made = Interface()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(made))
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    if made.delay is not None:
        made.delay.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def interface() -> Iterator[Interface]:
    with serving() as made:
        yield made


@pytest.fixture
def client() -> Iterator[HttpStatusClient]:
    made = HttpStatusClient("shop", StatusTokens("s3cret"), limit_s=LIMIT_S)
    yield made
    made.close()


def silence(client: HttpStatusClient, member: Member) -> Unreachable:
    answer = client.ask([member])[member.consumer]
    assert isinstance(answer, Unreachable)
    return answer


def test_a_status_is_read_and_the_token_sent(client: HttpStatusClient, interface: Interface) -> None:
    assert client.ask([interface.member]) == {"a": STATUS}
    assert interface.headers[0]["path"] == "/v1/status"
    assert interface.headers[0]["Authorization"] == "Bearer s3cret"
    assert client.ask([]) == {}


def test_without_a_token_none_is_sent(interface: Interface) -> None:
    client = HttpStatusClient("shop")
    client.ask([interface.member])
    client.close()
    assert "Authorization" not in interface.headers[0]


def test_the_usual_authorities_are_read_for_https_once(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    read, original = [], status_module._trusting

    def trusting(ca: str) -> ssl.SSLContext:
        read.append(ca)
        return original(ca)

    monkeypatch.setattr(status_module, "_trusting", trusting)
    client = HttpStatusClient("shop")
    try:
        assert client.ask([interface.member]) == {"a": STATUS}
        assert read == []
        for port in (interface.port, 1):
            silence(client, at(port, scheme="https"))
    finally:
        client.close()
    assert read == [""]


def test_a_new_connection_is_refused_where_a_kept_connection_still_answers(client: HttpStatusClient) -> None:
    with serving() as interface:
        member = interface.member
        assert client.ask([member]) == {"a": STATUS}
        assert client.unreachable([member]) == {}
        assert client.unreachable([at(interface.port, scheme="https")]) == {}, "nothing is sent"
    assert client.ask([member]) == {"a": STATUS}, "on the connection that was kept"
    assert client.unreachable([member])["a"].silence is Silence.REFUSED
    assert len(interface.headers) == 2


def test_a_registration_that_cannot_be_read_is_no_refusal(client: HttpStatusClient) -> None:
    member = Member("a", 1, "", "boot", problem="it is empty")
    assert client.unreachable([member]) == {"a": Unreachable(Silence.BROKEN, "it is empty")}
    assert client.unreachable([]) == {}


def test_a_closed_port_refuses(client: HttpStatusClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert silence(client, at(port)).silence is Silence.REFUSED


def test_a_host_that_accepts_and_says_nothing_is_silent_within_the_limit(client: HttpStatusClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        began_s = time.monotonic()
        answer = silence(client, at(deaf.getsockname()[1]))
    assert answer.silence is Silence.SILENT
    assert "no answer within 1.5 s" in answer.detail
    assert time.monotonic() - began_s < LIMIT_S + 1.0


def test_a_host_that_drops_packets_is_silent_and_refuses_nothing(client: HttpStatusClient) -> None:
    with socket.socket() as listener, contextlib.ExitStack() as held:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with contextlib.suppress(TimeoutError):  # the queue is full: the kernel drops every further request
            while True:
                filler = held.enter_context(socket.socket())
                filler.settimeout(0.2)
                filler.connect(listener.getsockname())
        member = at(listener.getsockname()[1])
        assert silence(client, member).silence is Silence.SILENT
        assert client.unreachable([member])["a"].silence is Silence.SILENT


@pytest.mark.parametrize(("consumer", "cluster", "incarnation"), [("b", "shop", 1), ("a", "mall", 1), ("a", "shop", 2)])
def test_another_consumer_at_the_address_is_foreign(
    client: HttpStatusClient, interface: Interface, consumer: str, cluster: str, incarnation: int
) -> None:
    interface.body = encode_status(ConsumerStatus(consumer, cluster, incarnation, "boot", "ok"))
    answer = silence(client, interface.member)
    assert answer.silence is Silence.FOREIGN
    assert "not 'a' of cluster 'shop', incarnation 1" in answer.detail


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"version":99}', b"\xff\xfe", b"{}"])
def test_what_is_no_status_is_broken(client: HttpStatusClient, interface: Interface, body: bytes) -> None:
    interface.body = body
    assert silence(client, interface.member).silence is Silence.BROKEN


def test_what_is_no_http_is_broken(client: HttpStatusClient) -> None:
    with answering(b"220 mail ready\r\n\r\n") as port:
        assert silence(client, at(port)).silence is Silence.BROKEN


@pytest.mark.parametrize("address", ["", "nonsense", "ftp://h", "http://[", "http://h:99999"])
def test_an_address_that_is_none_is_no_crash(client: HttpStatusClient, address: str) -> None:
    assert silence(client, Member("a", 1, address, "boot")).silence in (Silence.BROKEN, Silence.SILENT)


def test_an_endless_answer_is_cut_off(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_budget, "MAX_STATUS_BYTES", 1_000)
    interface.body = b" " * 100_000
    answer = silence(client, interface.member)
    assert answer.silence is Silence.BROKEN
    assert "longer than 1000 bytes" in answer.detail


def test_what_is_compressed_is_refused_unread(client: HttpStatusClient, interface: Interface) -> None:
    interface.body, interface.more = gzip.compress(bytes(10_000_000)), {"Content-Encoding": "gzip"}
    answer = silence(client, interface.member)
    assert (answer.silence, "encoded as 'gzip'" in answer.detail) == (Silence.BROKEN, True)
    assert interface.headers[0]["Accept-Encoding"] == "identity"


def test_a_connection_that_the_consumer_is_about_to_end_is_not_used_again(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert http_exchange.KEPT_S + DEFAULT_LIMIT_S < http_connections.REQUEST_S
    member = interface.member
    for kept_s, connections in ((60.0, 1), (0.0, 2)):
        monkeypatch.setattr(http_exchange, "KEPT_S", kept_s)
        assert client.ask([member]) == client.ask([member]) == {"a": STATUS}
        assert len({one["port"] for one in interface.headers[-2:]}) == connections


@contextlib.contextmanager
def flooding(answer: bytes, pause_s: float = 0.0) -> Iterator[tuple[Member, list[int]]]:
    """A consumer with an endless answer, and the number of sent bytes."""
    sent = [0]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def flood() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while not ended.wait(pause_s):
                    connection.sendall(b"%x\r\n%s\r\n" % (len(answer), answer))
                    sent[0] += len(answer)

        ended = threading.Event()
        thread = threading.Thread(target=flood)
        thread.start()
        try:
            yield at(server.getsockname()[1]), sent
        finally:
            ended.set()
            thread.join()


def test_an_endless_answer_to_a_topic_node_is_not_read(client: HttpStatusClient) -> None:
    with flooding(b" " * 100_000) as (member, sent):
        assert client.post_topic(member, "orders", b"{}")
    assert sent[0] < 20_000_000, "what the sockets and the client hold"


def test_an_answer_that_comes_byte_by_byte_has_one_deadline(client: HttpStatusClient) -> None:
    with flooding(b" ", pause_s=0.1) as (member, _):
        began_s = time.monotonic()
        assert silence(client, member).silence is Silence.SILENT
        assert time.monotonic() - began_s < LIMIT_S + 1.0


@pytest.mark.parametrize("method", ["ask", "unreachable"])
def test_the_client_of_an_address_that_is_no_longer_asked_is_closed(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    ask = getattr(client, method)
    for port in range(1, 30):
        ask([at(port, "b")])
    ask([interface.member])
    assert len(client._others.peers) == 30
    monkeypatch.setattr(status_module, "IDLE_S", 0.0)
    ask([interface.member])
    assert client._others.peers.keys() == client._others.asked_at.keys() == set()


@pytest.mark.filterwarnings("error")
def test_a_closed_client_has_closed_its_connections(interface: Interface) -> None:
    client = HttpStatusClient("shop", limit_s=LIMIT_S)
    client.ask([interface.member])
    (peer,) = client._others.peers.values()
    (connection,) = peer._idle
    client.close()
    assert connection.writer.transport.get_extra_info("socket").fileno() == -1


def unasked(answers: Mapping[str, object]) -> set[str]:
    return {name for name, one in answers.items() if isinstance(one, Unreachable) and one.silence is Silence.UNASKED}


def test_registrations_that_never_answer_take_the_time_of_one_and_nothing_from_an_owner(interface: Interface) -> None:
    client = HttpStatusClient("shop", limit_s=LIMIT_S, connections=20)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as deaf:
        mute = [at(deaf.getsockname()[1], f"h{n}") for n in range(100)]
        began_s = time.monotonic()
        answers = client.ask([*mute, interface.member], {"a": 3})
        took_s = time.monotonic() - began_s
        again = client.ask([*mute, interface.member], {"a": 3})
    client.close()
    assert answers["a"] == again["a"] == STATUS
    assert took_s < 2 * LIMIT_S, "five rounds of 20"
    assert len(unasked(answers)) == 80
    assert unasked(answers) != unasked(again), "others have their turn"


def test_one_that_never_answered_and_was_silent_is_asked_again_later_and_an_owner_at_once(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    interface.delay = threading.Event()
    assert silence(client, interface.member).silence is Silence.SILENT
    interface.delay.set()
    began_s = time.monotonic()
    assert silence(client, interface.member).silence is Silence.SILENT, "a look just before found it so"
    assert time.monotonic() - began_s < LIMIT_S / 2
    assert client.ask([replace(interface.member, incarnation=2)])["a"] != client.ask([interface.member])["a"]
    assert client.ask([interface.member], {"a": 1})["a"] == STATUS
    monkeypatch.setattr(status_module, "SILENT_S", 0.0)
    assert client.ask([interface.member])["a"] == STATUS


def test_long_answers_share_a_bound_that_takes_nothing_from_owners_nor_from_short_ones(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = encode_status(STATUS)[:-1] + b" " * 300_000 + b"}"
    interface.body = long
    monkeypatch.setattr(look_budget, "SHARED_BYTES", 100_000)
    monkeypatch.setattr(status_module, "SharedBytes", lambda: look_budget.SharedBytes(100_000))
    assert unasked(client.ask([interface.member])) == {"a"}, "300 KB, and 116 KB are left"
    assert client.ask([interface.member], {"a": 100}) == {"a": STATUS}, "356 KB of its own"
    interface.body = long[:40] + long[300_040 - 60_000 :]
    assert unasked(client.ask([interface.member])) == set()
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + b" " * 90_000) as port:
        assert client.ask([at(port, "h"), interface.member])["a"] != STATUS
    shared = look_budget.SharedBytes(10)
    allowance = look_budget.Allowance(shared, None)
    allowance.take(look_budget.OTHER_BYTES + 10)
    with pytest.raises(look_budget.NoBudget):
        look_budget.Allowance(shared, 0).take(look_budget.OTHER_BYTES + 1)
    look_budget.Allowance(shared, 0).take(look_budget.OTHER_BYTES)
    allowance.give_back()
    assert shared.left == 10


def test_the_answers_of_others_are_read_within_a_time_and_those_of_owners_always(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_module, "READ_CPU_S", 0.0)
    assert unasked(client.ask([interface.member], {"a": 0})) == {"a"}
    assert client.ask([interface.member], {"a": 1}) == {"a": STATUS}


def test_consumers_with_and_without_earlier_answers_are_asked_in_turn() -> None:
    old = [Member(f"old-{n}", 1, "http://h:1", "") for n in range(3)]
    new = [Member(f"new-{n}", 1, "http://h:1", "") for n in range(look_budget.MOST_OTHERS)]
    owner = Member("z", 1, "http://h:1", "")
    order = look_budget.in_order([*new, *old, owner], {**{one.consumer: 0 for one in old}, "z": 1})
    assert order.owners == (owner,)
    assert [one.consumer[:3] for one in order.others[:7]] == ["old", "new"] * 3 + ["new"]
    assert (len(order.others), len(order.left_out)) == (look_budget.MOST_OTHERS, 3)


def test_an_answer_that_takes_long_to_read_takes_no_time_from_the_others(
    client: HttpStatusClient, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(address: str, raw: bytes) -> ConsumerStatus:
        time.sleep(LIMIT_S if raw == b"long" else 0.0)
        return STATUS

    monkeypatch.setattr(status_module, "decode_status", slow)
    interface.delay = threading.Event()
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlong") as port:
        threading.Timer(LIMIT_S / 2, interface.delay.set).start()
        assert client.ask([at(port, "h"), interface.member])["a"] == STATUS


def test_the_others_have_their_turn_after_each_tiny_part_of_an_answer() -> None:
    parts = 2_000

    async def read() -> tuple[bytes, int]:
        reader, protocol, turns = asyncio.StreamReader(), h11.Connection(h11.CLIENT), 0
        protocol.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
        protocol.send(h11.EndOfMessage())
        reader.feed_data(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * parts + b"0\r\n\r\n"
        )
        connection = http_exchange._Connection(reader, cast("asyncio.StreamWriter", None), protocol)

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.ensure_future(other())
        await http_exchange._event(connection)
        body = await http_exchange._body(connection, lambda _: None)
        beside.cancel()
        return body, turns

    body, turns = asyncio.run(read())
    assert (body, turns >= parts) == (b"x" * parts, True)


def test_a_topic_node_is_posted_as_it_is(client: HttpStatusClient, interface: Interface) -> None:
    assert client.post_topic(interface.member, "orders", b'{"epoch":3}')
    assert interface.posts == [("/v1/topics/orders", b'{"epoch":3}')]
    interface.code = 409
    assert not client.post_topic(interface.member, "orders", b"{}")
    assert not client.post_topic(at(1), "orders", b"{}")
    with pytest.raises(InvalidName):
        client.post_topic(interface.member, "../status", b"{}")


def test_a_topic_node_that_nobody_reads_keeps_no_connection(client: HttpStatusClient) -> None:
    node, sent = b" " * 30_000_000, 0  # more than the sockets of both sides hold
    with socket.create_server(("127.0.0.1", 0)) as server:
        member = at(server.getsockname()[1])
        assert not client.post_topic(member, "orders", node)
        connection, _ = server.accept()
        with connection, contextlib.suppress(ConnectionError):
            while part := connection.recv(1_000_000):
                sent += len(part)
    assert sent < len(node)


def test_without_a_token_no_node_is_posted_said_once(interface: Interface, caplog: pytest.LogCaptureFixture) -> None:
    client = HttpStatusClient("shop")
    assert not client.post_topic(interface.member, "orders", b"{}")
    assert not client.post_topic(interface.member, "orders", b"{}")
    client.close()
    assert interface.posts == []
    (said,) = [record.message for record in caplog.records if record.name == status_module.__name__]
    assert said.startswith("a cannot reach ZooKeeper and is not handed the node of topic orders")
