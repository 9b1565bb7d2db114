"""Why no ZooKeeper server grants a session; with real servers in `tests/contract/test_zookeeper_login.py`."""

import socket

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_causes import Causes, why_silent
from tests.fakes.raw_server import answering

HOSTS = [("zk1", 1), (" zk2", 2)]


def dropped(cause: Exception | None = None) -> Exception:
    """As kazoo raises it."""
    error: Exception = ConnectionDropped("socket connection broken")
    error.__context__ = cause
    return error


def test_the_search_ends_only_when_no_server_can_answer() -> None:
    causes = Causes(ZooKeeperAccess("ada", "pw"))
    assert (causes.lasting(HOSTS), causes.text()) == ("", "")
    causes.note("zk1", "", 1, AuthFailedError())
    assert causes.lasting(HOSTS) == ""
    causes.note("zk2", "", 2, dropped(ConnectionRefusedError(111, "Connection refused")))
    assert causes.lasting(HOSTS) == ""
    refused = "it refuses the log-in of user 'ada' (scheme digest); check the user and the password in the settings"
    assert causes.text() == f"zk1:1: {refused}; zk2:2: [Errno 111] Connection refused"
    causes.note("zk2", "", 2, AuthFailedError())
    assert causes.lasting(HOSTS) == refused
    causes.forget()
    assert (causes.lasting(HOSTS), causes.text()) == ("", "")


@pytest.mark.parametrize(
    ("error", "lasting", "text"),
    [
        (KazooTimeoutError(), False, "it takes connections and does not answer"),
        (RuntimeError("xids do not match"), True, "kazoo failed with RuntimeError: xids do not match"),
        (dropped(TimeoutError("timed out")), False, "timed out"),
    ],
    ids=["silent", "kazoo's thread ends", "unreachable"],
)
def test_a_cause_is_kept_with_whether_it_lasts(error: Exception, lasting: bool, text: str) -> None:
    causes = Causes(ZooKeeperAccess())
    causes.note("zk1", "", 1, error)
    assert causes.text() == text
    assert causes.lasting([("zk1", 1)]) == (text if lasting else "")


@pytest.mark.parametrize(
    ("answer", "tls", "lasting"),
    [
        (b"", False, ""),
        (b"", True, ""),
        (b"HTTP/1.1 400 Bad Request\r\n", True, ""),
        (b"Zookeeper version: 3.9.5", False, ""),
        (b"Zookeeper version: 3.9.5", True, "this port speaks no TLS"),
        (b"srvr is not executed because it is not in the whitelist.", True, "this port speaks no TLS"),
    ],
)
def test_a_server_that_hangs_up_is_asked_for_its_protocol(answer: bytes, tls: bool, lasting: str) -> None:
    causes = Causes(ZooKeeperAccess(ca="ca.pem" if tls else ""))
    with answering(answer) as port:
        causes.note("zk1", "127.0.0.1", port, dropped())
        assert causes.lasting([("zk1", port)]).startswith(lasting)
        assert bool(causes.lasting([("zk1", port)])) == bool(lasting)
    assert causes.text().startswith(lasting or "it hangs up on every connection")


@pytest.mark.parametrize("hosts", ["zk1.invalid", " zk1.invalid , zk2.invalid:2182"])
def test_an_address_without_a_port_is_tried_at_the_port_that_kazoo_takes(hosts: str) -> None:
    assert why_silent(hosts).startswith("[Errno -")  # the name has no address; the port is no reason


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_port_that_is_open_and_grants_no_session_is_said_to_be_open(host: str) -> None:
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.create_server((host.strip("[]"), 0), family=family) as server:
        assert why_silent(f"{host}:{server.getsockname()[1]}").startswith("the port is open")
