"""A server's version: never more than the doctor can show, and nothing from a malformed answer."""

import socket
import struct
from contextlib import closing

import pytest

from coordinator_tasks.adapters import server_versions
from coordinator_tasks.adapters.server_versions import (
    NOT_TOLD,
    kafka_versions,
    zookeeper_versions,
)
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.devstack.embedded.ports import free_port
from tests.fakes.raw_server import answering

NAME = b"metadata.version"


def told_by_broker(answer: bytes) -> str:
    with answering(answer) as port:
        return kafka_versions([f"127.0.0.1:{port}"], {})[f"127.0.0.1:{port}"]


def features(level: int, finalized: int = 7) -> bytes:
    """The end of a broker's answer: supported features, then features in use."""
    one = bytes([len(NAME) + 1]) + NAME
    body = b"\0\0\0\x01" + one + struct.pack(">hh", 7, level) + b"\0" + one + struct.pack(">hh", finalized, finalized)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("level", "release"),
    [
        (20, "before 3.9"),
        (21, "3.9"),
        (25, "4.0"),
        (26, "4.1"),
        (30, "4.3"),
        (31, "after 4.3"),
    ],
)
def test_a_brokers_release_is_told_by_the_newest_level_that_it_supports(level: int, release: str) -> None:
    assert told_by_broker(features(level)) == release


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 4) + b"abcd",
        features(30)[:-30],
    ],
    ids=["nothing", "half a length", "endless", "no feature", "cut"],
)
def test_a_broker_that_answers_oddly_tells_nothing(answer: bytes) -> None:
    assert told_by_broker(answer) == NOT_TOLD


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (b"Zookeeper version: 3.9.5-4d6eb5b1, built on 2025\nLatency min/avg/max: 0", "3.9.5"),
        (b"srvr is not executed because it is not in the whitelist.\n", NOT_TOLD),
        (b"Zookeeper version: " + b"9" * 1000, "9" * 20),
        (b"\xff\xfe", NOT_TOLD),
    ],
    ids=["a version", "not allowed", "too long", "noise"],
)
def test_a_zookeeper_tells_its_version_where_it_may(answer: bytes, version: str) -> None:
    with answering(answer) as port:
        found = zookeeper_versions(f"127.0.0.1:{port}/apps", ZooKeeperAccess())
    assert found == {f"127.0.0.1:{port}": version}


def test_a_server_that_is_down_or_silent_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_versions, "LIMIT_S", 0.1)
    down = f"127.0.0.1:{free_port()}"
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        assert kafka_versions([down, silent], {}) == {down: NOT_TOLD, silent: NOT_TOLD}
