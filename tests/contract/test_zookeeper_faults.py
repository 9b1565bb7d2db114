"""A session whose server is frozen, stopped, restarted or replaced; on a real server of these tests' own."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.core.ports import Connection, Create, SetData
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.ended_session import end_session
from tests.faults.proxy import Proxy
from tests.integration.agent_site import wait_for

WAIT_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("faults"), tick_time_ms=1000) as made:
        yield made


class Session:
    """A session with what its listener has heard."""

    def __init__(self, address: str, timeout_s: float = 4.0, answer_timeout_s: float = 1.0) -> None:
        self.zk = KazooZooKeeper(address, session_timeout_s=timeout_s, answer_timeout_s=answer_timeout_s)
        self.heard: list[Connection] = []
        self._news = threading.Condition()
        self.zk.listen(self._note)

    def _note(self, connection: Connection) -> None:
        with self._news:
            self.heard.append(connection)
            self._news.notify_all()

    def await_heard(self, connection: Connection) -> float:
        """Return after how many seconds the connection's change was heard."""
        begun_s = time.monotonic()
        with self._news:
            assert self._news.wait_for(lambda: connection in self.heard, WAIT_S), self.heard
        return time.monotonic() - begun_s


@pytest.fixture
def session(server: EmbeddedZooKeeper) -> Iterator[Session]:
    made = Session(server.connect_string)
    yield made
    made.zk.close()


def test_the_session_timeout_is_the_one_that_was_granted(server: EmbeddedZooKeeper) -> None:
    zk = KazooZooKeeper(server.connect_string, session_timeout_s=60.0)
    assert zk.session_timeout_s == pytest.approx(20.0)
    zk.close()


def test_a_stopped_server_is_said_and_nothing_is_written_later(server: EmbeddedZooKeeper) -> None:
    session = Session(server.connect_string, timeout_s=20.0)
    session.zk.ensure("/stop")
    number = session.zk.session_id
    server.kill()
    session.await_heard(Connection.SUSPENDED)
    for request in (lambda: session.zk.get("/stop"), session.zk.sync, lambda: session.zk.get_many(["/stop"])):
        with pytest.raises(StoreUnavailable, match=r"does not answer within 1 s: .*; check that it runs"):
            request()
    with pytest.raises(StoreUnavailable):
        session.zk.transact([SetData("/stop", b"never sent")])
    server.start()
    session.await_heard(Connection.CONNECTED)
    session.zk.sync()
    assert session.zk.get("/stop").data == b""
    assert session.zk.get("/stop").stat.version == 0
    assert Connection.LOST not in session.heard
    assert session.zk.session_id == number
    session.zk.close()


def test_a_lost_handshake_ends_no_session(server: EmbeddedZooKeeper) -> None:
    with Proxy(server.connect_string) as proxy:
        session = Session(proxy.address, timeout_s=12.0)
        number = session.zk.session_id
        proxy.swallow()
        session.await_heard(Connection.SUSPENDED)
        wait_for(lambda: proxy.open == 1, "the client has come again", WAIT_S)
        proxy.let_through(keep=True)
        # The server counts from the last ping, up to four seconds ago.
        assert session.await_heard(Connection.CONNECTED) < 8.0
        assert session.zk.session_id == number
        assert Connection.LOST not in session.heard
        session.zk.close()


def test_a_server_that_is_slow_to_answer_is_waited_for_longer_after_each_attempt(server: EmbeddedZooKeeper) -> None:
    with Proxy(server.connect_string, answers_after_s=1.5) as proxy:  # the first attempt takes a second at most
        session = Session(proxy.address, timeout_s=3.0, answer_timeout_s=WAIT_S)
        assert session.zk.session_id != 0
        session.zk.close()


def test_a_read_outlasts_a_short_restart(server: EmbeddedZooKeeper) -> None:
    patient = Session(server.connect_string, answer_timeout_s=WAIT_S)
    patient.zk.ensure("/restart")
    found: list[object] = []
    server.kill()
    patient.await_heard(Connection.SUSPENDED)
    reading = threading.Thread(target=lambda: found.append(patient.zk.get_many(["/restart"])))
    reading.start()
    server.start()
    reading.join(WAIT_S)
    assert len(found) == 1
    patient.zk.close()


def test_a_frozen_server_leaves_a_write_with_an_unknown_outcome(server: EmbeddedZooKeeper, session: Session) -> None:
    session.zk.ensure("/frozen")
    began_s = time.monotonic()
    server.pause()
    try:
        with pytest.raises(StoreUnavailable):
            session.zk.transact([SetData("/frozen", b"perhaps", 0)])
        assert time.monotonic() - began_s < WAIT_S
    finally:
        server.resume()
    session.zk.sync()
    assert session.zk.get("/frozen").stat.version in (0, 1)


def test_a_lost_connection_wakes_every_watcher(server: EmbeddedZooKeeper, session: Session) -> None:
    session.zk.ensure("/watched")
    woken = [threading.Event() for _ in range(3)]
    session.zk.get("/watched", woken[0].set)
    session.zk.children("/watched", woken[1].set)
    session.zk.find("/not-there", woken[2].set)
    server.kill()
    try:
        assert all(one.wait(WAIT_S) for one in woken)
    finally:
        server.start()


def test_an_expired_session_is_lost_and_goes_on_with_a_new_one(server: EmbeddedZooKeeper, session: Session) -> None:
    session.zk.transact([Create("/ephemeral", ephemeral=True)])
    old = session.zk.session_id
    assert end_session(server.connect_string, session.zk.client.client_id)
    session.await_heard(Connection.LOST)
    deadline_s = time.monotonic() + WAIT_S
    while session.zk.session_id in (0, old) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert session.zk.session_id not in (0, old)
    assert session.zk.find("/ephemeral") is None


def test_paths_are_below_the_chroot_which_is_made_where_missing(server: EmbeddedZooKeeper, session: Session) -> None:
    zk = KazooZooKeeper(f"{server.connect_string}/team/streams/")
    zk.ensure("/consumers")
    assert zk.transact([Create("/consumers/a"), Create("/consumers/n-", sequence=True)]) == [
        "/consumers/a",
        "/consumers/n-0000000001",
    ]
    assert zk.children("/") == ["consumers"]
    assert session.zk.children("/team/streams/consumers") == ["a", "n-0000000001"]
    zk.close()


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "no-such-host.invalid:2181"])
def test_a_server_that_is_not_there_is_said_within_the_limit(hosts: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailable, match=rf"^ZooKeeper at {hosts} does not answer within 1 s: .*; check that"):
        KazooZooKeeper(hosts, answer_timeout_s=1.0)
    assert time.monotonic() - began_s < WAIT_S


@pytest.mark.parametrize("hosts", ["", "host:port", "/only/a/path", "zk..example:2181", "127.0.0.1:1,\udcff:2181"])
def test_an_address_that_is_none_is_refused(hosts: str) -> None:
    with pytest.raises(Refused, match="is no ZooKeeper address"):
        KazooZooKeeper(hosts)


def test_sasl_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Refused, match="pure-sasl, which is not installed"):
        KazooZooKeeper("127.0.0.1:1", access=ZooKeeperAccess("u", "p", "DIGEST-MD5"))


def test_a_port_that_is_no_zookeeper_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(StoreUnavailable, match="grants a session"):
        KazooZooKeeper(f"127.0.0.1:{deaf.getsockname()[1]}", answer_timeout_s=0.5)


@pytest.mark.parametrize("older", [True, False], ids=["restored", "emptied"])
def test_a_server_with_older_data_gets_a_new_session_after_the_old_ones_time_out(tmp_path: Path, older: bool) -> None:
    with EmbeddedZooKeeper(tmp_path / "server") as own:
        store = own.data_dir / "data" / "version-2"
        # kazoo waits up to a second between its attempts.
        session = Session(own.connect_string, timeout_s=1.0, answer_timeout_s=WAIT_S)
        session.zk.ensure("/kept")
        own.stop()
        if older:
            shutil.copytree(store, tmp_path / "backup")
        own.start()
        session.zk.sync()
        for number in range(5):
            session.zk.ensure(f"/lost-{number}")
        before = session.zk.session_id
        own.kill()
        shutil.rmtree(store)
        if older:
            shutil.copytree(tmp_path / "backup", store)
        own.start()
        session.await_heard(Connection.LOST)
        deadline_s = time.monotonic() + WAIT_S
        while session.zk.session_id in (0, before) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert (session.zk.find("/kept") is not None, session.zk.find("/lost-4")) == (older, None)
        session.zk.close()
