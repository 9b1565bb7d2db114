"""A consumer dies and another process listens at its port: that proves nothing, and it is not taken for the consumer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from coordinator_tasks.service.nodes import observe
from tests.integration.stub_cluster import PARTITIONS, StubCluster
from tests.integration.test_real_silence import Hosted, cluster

__all__ = ["cluster"]
pytestmark = pytest.mark.integration


class _Stranger(BaseHTTPRequestHandler):
    body = b"welcome to nginx"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def listening(port: int, body: bytes) -> Iterator[None]:
    """Another process at this port."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Stranger", (_Stranger,), {"body": body}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("answer", ["no JSON", "another consumer's status"])
def test_a_stranger_at_the_port_is_neither_the_consumer_nor_proof_of_its_end(cluster: StubCluster, answer: str) -> None:
    dead = cluster.join("a", Hosted)
    assert isinstance(dead, Hosted)
    other = cluster.join("b")
    cluster.stable("ab")
    body = b"welcome to nginx" if answer == "no JSON" else other.status()
    dead.refuse()
    with listening(dead.port, body):
        dead.die()
        began = time.monotonic()
        cluster.until(lambda: cluster.isolated_by("a") != "", "isolated by the platform")
        assert time.monotonic() - began >= cluster.settings.policy.absent_after_s - 0.5
        assert cluster.isolated_by("a") == observe.PLATFORM
        assert cluster.ended("a") == {}, "its end was never seen"
        cluster.stable("b")
        node, _ = cluster.stored()
        assert len(node.guarded) == PARTITIONS // 2, "a survivor may still commit: b waits for the fence"
