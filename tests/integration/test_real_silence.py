"""A host that drops packets: its consumer is named, and never isolated while registered."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from coordinator_tasks.core.model import Member, State
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.wiring import Settings, open_consumer_session
from tests.integration.real_site import LIMIT_S
from tests.integration.stub_cluster import PARTITIONS, StubCluster, stub_cluster
from tests.integration.stub_consumer import BOOT_ID, STEP_S, StubConsumer, _serve

pytestmark = pytest.mark.integration
ASK_S = 0.5


@contextmanager
def full_backlog(port: int) -> Iterator[None]:
    """The kernel drops every further connection request to this port: the queue is full and nobody accepts."""
    with socket.socket() as listener, ExitStack() as held:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        while True:
            filler = held.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                break
        yield


class Hosted(StubConsumer):
    """Its interface listens at a port of the test's choice, and its host can go silent."""

    def _run(self) -> None:
        # A port that no outgoing connection is given: `drop` takes it again.
        port = free_port()
        with open_consumer_session(self.settings) as session, _serve(self, port) as server, ExitStack() as host:
            self.host = host
            self.port = server.server_address[1]
            self.incarnation = session.claim_incarnation(self.consumer)
            self._close_server: Callable[[], None] = lambda: (server.shutdown(), server.server_close())[0]
            session.registry.register(Member(self.consumer, self.incarnation, f"http://127.0.0.1:{self.port}", BOOT_ID))
            self.muted = False
            self._ready.set()
            while not self._stop.wait(STEP_S):
                if not self.deaf:
                    self._step(session)
            session.zk.close()
            self.may_end.wait(LIMIT_S)

    def __init__(self, settings: Settings, consumer: str) -> None:
        super().__init__(settings, consumer)
        self.may_end = threading.Event()
        self.muted = False

    def status(self) -> bytes:
        if self.muted:
            self.may_end.wait(LIMIT_S)  # what is still connected hears nothing either
        return super().status()

    def drop(self) -> None:
        """The host takes no packet any more, and nobody there hears of anything."""
        self.deaf = self.muted = True
        self._close_server()
        self.host.enter_context(full_backlog(self.port))

    def stop(self) -> None:
        self.may_end.set()
        super().stop()


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[StubCluster]:
    policy = {"settle_max_s": 0.5, "absent_after_s": 2.0}
    with stub_cluster(zookeeper, kafka, policy, session_timeout_s=1.0, ask_timeout_s=ASK_S) as made:
        yield made


def test_a_registered_consumer_behind_dropped_packets_is_named_and_never_isolated_and_others_go_on(
    cluster: StubCluster,
) -> None:
    silent = cluster.join("a", Hosted)
    assert isinstance(silent, Hosted)
    cluster.join("b")
    cluster.stable("ab")
    silent.drop()
    taker = cluster.join("d")
    held_by_silent = PARTITIONS // 2 - 1

    def only_the_silent_one_is_missing() -> bool:
        node, state = cluster.stored()
        return set(state.to_close) == {"a"} and "d" in node.assignments.values()

    cluster.until(only_the_silent_one_is_missing, "what b gave is assigned, though a says nothing")
    began = time.monotonic()
    while time.monotonic() - began < cluster.settings.policy.absent_after_s + 1:
        report = cluster.step()
        assert (report.after, report.blockers) == (State.CLOSING, ("a",))
    assert "a does not answer" in report.reason
    assert "within 0.5 s" in report.reason
    assert cluster.isolated_by("a") == ""
    node, _ = cluster.stored()
    assert taker.running(cluster.topic) == {p for p, owner in node.assignments.items() if owner == "d"}
    assert sum(owner == "a" for owner in node.assignments.values()) == held_by_silent
