"""kazoo's wait for sockets: ready sockets, broken sockets, duration."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from kazoo.handlers.threading import KazooTimeoutError

from coordinator_tasks.adapters.kazoo_handler import PollingHandler

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_only_what_can_be_read_or_written_is_given_back(pair: Pair) -> None:
    ours, theirs = pair
    assert PollingHandler().select([ours, theirs], [], [], 0) == ([], [], [])
    theirs.send(b"x")
    assert PollingHandler().select([ours, theirs], [theirs], [], 0) == ([ours], [theirs], [])
    assert PollingHandler().select([ours], [ours], [], 0) == ([ours], [ours], [])


def test_a_wait_ends_with_the_first_byte_and_otherwise_with_its_time(pair: Pair) -> None:
    ours, theirs = pair
    assert PollingHandler().select([ours], [], [], 0.01) == ([], [], [])
    later = threading.Timer(0.05, theirs.send, [b"x"])
    later.start()
    assert PollingHandler().select([ours], [], []) == ([ours], [], [])
    later.join()


def test_a_time_that_is_over_and_a_socket_that_is_closed_here_are_refused(pair: Pair) -> None:
    ours, _ = pair
    with pytest.raises(ValueError, match="negative"):
        PollingHandler().select([ours], [], [], -1.5)
    ours.close()
    with pytest.raises(ValueError, match="closed"):
        PollingHandler().select([ours], [], [], 0)


def test_a_host_that_is_off_is_given_up_at_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        begun_s = time.monotonic()
        with pytest.raises((OSError, KazooTimeoutError)):  # Linux drops the request, as if the host were off
            PollingHandler(lambda: 0.1).create_connection(full.getsockname(), timeout=60.0)
        assert time.monotonic() - begun_s < 30.0
