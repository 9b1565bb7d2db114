"""The consumer's interface over TLS, with certificates of real authorities.

With `status_ca` nothing is sent to a consumer that registers `http://`, or shows a certificate of another authority, for another
host, or an expired certificate. A half-written renewed certificate is not used.
"""

import logging
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from coordinator_tasks import http_connections
from coordinator_tasks.adapters.status import HttpStatusClient
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Answer, Condition, ConsumerStatus, Member, Silence, Unreachable
from coordinator_tasks.status_tokens import StatusTokens
from coordinator_tasks.tls_files import TlsFiles
from spark_apps.agent.interface.status_server import Interface, StatusServer
from tests.certificates import DAY, Authority, Pair
from tests.unit.spark_apps.agent.interface.test_status_server import TOKEN, ends_within

STATUS = ConsumerStatus("a", "c", 3, "boot", "ok")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "site")


def files(pair: Pair) -> TlsFiles:
    return TlsFiles("status_", "the consumer's interface over TLS", "", str(pair.certificate), str(pair.key))


@contextmanager
def served(tls: TlsFiles | None, status: Callable[[], ConsumerStatus] = lambda: STATUS) -> Iterator[StatusServer]:
    interface = Interface(status, lambda topic, _: topic == "t", lambda: Condition.OK, bytes)
    server = StatusServer(interface, tokens=StatusTokens(TOKEN), tls=tls)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def client(ca: Path | str, *, https_only: bool = False) -> Iterator[HttpStatusClient]:
    made = HttpStatusClient("c", StatusTokens(TOKEN), ca=str(ca), https_only=https_only)
    try:
        yield made
    finally:
        made.close()


def ask(asking: HttpStatusClient, server: StatusServer, address: str = "") -> Answer:
    return asking.ask([Member("a", 3, address or server.address, "boot")])["a"]


def plain(server: StatusServer) -> socket.socket:
    """A connection without a handshake."""
    host, _, port = server.address.removeprefix("https://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_with_a_certificate_the_registered_address_is_https_and_all_works(authority: Authority) -> None:
    with served(files(authority.sign("a"))) as server, client(authority.ca) as asking:
        assert server.address.startswith("https://127.0.0.1:")
        assert ask(asking, server) == STATUS
        assert ask(asking, server, server.address.replace("127.0.0.1", "localhost")) == STATUS
        assert asking.post_topic(Member("a", 3, server.address, "boot"), "t", b"{}")


def test_with_an_authority_nothing_is_sent_to_plain_http(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as rogue, client(authority.ca, https_only=True) as asking:
        address = f"http://127.0.0.1:{rogue.getsockname()[1]}"
        member = Member("a", 3, address, "boot")
        answer = asking.ask([member])["a"]
        assert isinstance(answer, Unreachable)
        assert answer.silence is Silence.BROKEN
        assert "registered with plain http" in answer.detail
        assert "status_certificate" in answer.detail
        assert not asking.post_topic(member, "t", b"{}")
        rogue.settimeout(0.3)
        with suppress(TimeoutError):
            while True:
                connection, _ = rogue.accept()
                with connection:
                    assert received(connection) == b"", "a connection tells whether anybody listens, and sends nothing"
    with client(authority.ca, https_only=True) as asking:
        gone = asking.ask([member])["a"]
        assert isinstance(gone, Unreachable)
        assert gone.silence is Silence.REFUSED, "a refused connection still tells that nobody is there"


def refused(authority: Authority, pair: Pair, ca: Path | str) -> str:
    asked: list[bool] = []

    def status() -> ConsumerStatus:
        asked.append(True)
        return STATUS

    with served(files(pair), status) as server, client(ca) as asking:
        answer = ask(asking, server)
        assert not asking.post_topic(Member("a", 3, server.address, "boot"), "t", b"{}")
    assert isinstance(answer, Unreachable)
    assert (answer.silence, asked) == (Silence.BROKEN, [])
    return answer.detail


def test_a_wrong_certificate_is_refused_with_the_cause(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "rogue").sign("a")
    said = refused(authority, foreign, authority.ca)
    assert f"its certificate is not signed by an authority in {authority.ca}" in said
    assert "set status_ca" in said
    assert "not signed by an authority that this host knows" in refused(authority, foreign, "")
    elsewhere = authority.sign("elsewhere", address="10.9.9.9")
    assert "its certificate is for another host" in refused(authority, elsewhere, authority.ca)
    assert "its certificate is not valid today" in refused(authority, authority.sign("old", ends_in=-DAY), authority.ca)


def test_a_plain_port_under_https_is_named(authority: Authority) -> None:
    with served(None) as server, client(authority.ca) as asking:
        answer = ask(asking, server, server.address.replace("http://", "https://"))
    assert isinstance(answer, Unreachable)
    assert "it speaks no TLS" in answer.detail


def received(connection: socket.socket, most: int = 1_000) -> bytes:
    try:
        return connection.recv(most)
    except ConnectionResetError:
        return b""


def hello() -> bytes:
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("said", [b"", b"\x16", hello()[:60], hello()], ids=["nothing", "a byte", "half", "a hello"])
def test_handshakes_that_never_end_keep_nobody_out(authority: Authority, said: bytes) -> None:
    before = threading.active_count()
    with ExitStack() as ending:
        server = ending.enter_context(served(files(authority.sign("a"))))
        asking = ending.enter_context(client(authority.ca))
        for _ in range(2 * http_connections.MAX_CONNECTIONS):
            ending.enter_context(plain(server)).sendall(said)
        for _ in range(3):
            began_s = time.monotonic()
            assert ask(asking, server) == STATUS
            assert time.monotonic() - began_s < 2.0, "as long as the coordinator waits"
        assert threading.active_count() - before <= http_connections.MAX_CONNECTIONS + 3, "and the client's own"


def test_handshake_and_request_share_one_deadline(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "REQUEST_S", 0.6)
    context = trusting(authority)
    with served(files(authority.sign("a"))) as server:
        with plain(server) as one:
            assert ends_within(one, b"\x16") < 2.0
        with plain(server) as raw:
            time.sleep(0.4)  # two thirds of the time go by before the handshake begins
            began_s = time.monotonic()
            with context.wrap_socket(raw, server_hostname="localhost") as one:
                one.sendall(b"GET /v1/sta")
                assert one.recv(1000) == b""
            assert time.monotonic() - began_s < 0.5


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.ca)
    return context


def test_an_answer_without_a_reader_ends_at_the_deadline(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "REQUEST_S", 0.6)
    long = ConsumerStatus("a", "c", 3, "boot", "x" * 30_000_000)
    with served(files(authority.sign("a")), lambda: long) as server, plain(server) as raw:
        one = trusting(authority).wrap_socket(raw, server_hostname="localhost")
        one.sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n")
        read, began_s = 0, time.monotonic()
        while part := received(one, 8_000):
            read += len(part)
            time.sleep(0.001)  # slower than the writer, and never so slow that one part takes the whole time
        assert read < 30_000_000
        assert time.monotonic() - began_s < 10.0


def replace_pair(into: Pair, by: Pair) -> None:
    for target, source in ((into.certificate, by.certificate), (into.key, by.key)):
        copy = target.with_suffix(".new")
        shutil.copy(source, copy)
        copy.replace(target)


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    former, following = Authority(tmp_path / "1", "former"), Authority(tmp_path / "2", "following")
    pair = former.sign("a")
    with served(files(pair)) as server:
        with client(former.ca) as asking:
            assert ask(asking, server) == STATUS
        pair.key.write_text("half of a key")
        with client(former.ca) as asking:
            assert ask(asking, server) == STATUS, "what cannot be used changes nothing"
        assert "the former certificate stays" in caplog.text
        replace_pair(pair, following.sign("a"))
        with client(following.ca) as asking:
            assert ask(asking, server) == STATUS


def test_a_renewed_authority_is_trusted_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Airflow's triggerer keeps a client for months."""
    former, following = Authority(tmp_path / "1", "former"), Authority(tmp_path / "2", "following")
    with ExitStack() as ending:
        old, new = (ending.enter_context(served(files(one.sign("a")))) for one in (former, following))
        asking = ending.enter_context(client(former.ca))
        assert (ask(asking, old), isinstance(ask(asking, new), Unreachable)) == (STATUS, True)
        both = former.ca.read_bytes() + following.ca.read_bytes()
        former.ca.write_text("half of a certificate")
        ask(asking, new)
        assert "the former authorities stay" in caplog.text
        former.ca.write_bytes(both)
        assert (ask(asking, old), ask(asking, new)) == (STATUS, STATUS)


def test_wrong_files_are_refused_at_the_start(authority: Authority, tmp_path: Path) -> None:
    pair = authority.sign("a")
    foreign = authority.sign("b")
    closed = authority.sign("c", secret="pass phrase")
    wrong = [
        (TlsFiles("status_", "TLS", "", str(pair.certificate), str(foreign.key)), "does not belong to the certificate"),
        (TlsFiles("status_", "TLS", "", str(closed.certificate), str(closed.key)), "set status_key_password to its"),
        (
            TlsFiles("status_", "TLS", "", str(tmp_path / "none"), str(pair.key)),
            "status_certificate: .* cannot be read",
        ),
    ]
    for tls, text in wrong:
        with pytest.raises(Refused, match=text), served(tls):
            raise AssertionError
    good = TlsFiles("status_", "TLS", "", str(closed.certificate), str(closed.key), "pass phrase")
    with served(good) as server, client(authority.ca) as asking:
        assert ask(asking, server) == STATUS


def test_an_unusable_authority_is_refused_at_the_start(tmp_path: Path) -> None:
    nothing = tmp_path / "ca.pem"
    with pytest.raises(Refused, match=r"status_ca: .* cannot be read"), client(nothing):
        raise AssertionError
    nothing.write_text("no certificate")
    with pytest.raises(Refused, match="holds no certificate in PEM"), client(nothing):
        raise AssertionError
