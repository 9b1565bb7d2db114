"""Hosts that drop packets: asked within the limit, named, never isolated while registered."""

import os
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.adapters.status import HttpStatusClient
from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_directive
from coordinator_tasks.core.model import Actor, Ending, Member, Silence, State, TopicNode, TopicState, Unreachable
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import Settings, open_consumer_session, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S, QUICK
from tests.integration.stub_consumer import BOOT_ID, STEP_S, StubConsumer, _serve

pytestmark = pytest.mark.integration
PARTITIONS = 6
ASK_S = 0.5
LOOP = Actor("loop", "test")


@contextmanager
def full_backlog(port: int = 0) -> Iterator[str]:
    """An address whose kernel drops every further connection request: the queue is full and nobody accepts."""
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
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dropped_packets() -> Iterator[str]:
    """An address behind a link whose other end takes every packet and says nothing; needs rights on the network."""
    link, peer = f"drop{os.getpid()}", f"gone{os.getpid()}"
    there = "02:00:00:00:00:02"
    commands = [
        ["addr", "add", "198.51.100.1/30", "dev", link],
        ["link", "set", link, "up"],
        ["link", "set", peer, "up"],
        ["neigh", "add", "198.51.100.2", "lladdr", there, "dev", link, "nud", "permanent"],
    ]
    try:
        subprocess.run(
            ["ip", "link", "add", link, "type", "veth", "peer", "name", peer], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not make network links here")
    try:
        for command in commands:
            subprocess.run(["ip", *command], check=True, capture_output=True)
        yield "http://198.51.100.2:9999"
    finally:
        subprocess.run(["ip", "link", "del", link], check=True, capture_output=True)


class Hosted(StubConsumer):
    """Its interface listens at a port of the test's choice, and its host can go silent or refuse.

    Its process may die as well: the session ends, and nothing is said.
    """

    def _run(self) -> None:
        # A port that no outgoing connection is given: `drop` takes it again.
        port = free_port()
        with open_consumer_session(self.settings) as session, _serve(self, port) as server, ExitStack() as host:
            self.host = host
            self.port = server.server_address[1]
            self.incarnation = session.claim_incarnation(self.consumer)
            self._close_server: Callable[[], None] = lambda: (server.shutdown(), server.server_close())[0]
            session.registry.register(Member(self.consumer, self.incarnation, f"http://127.0.0.1:{self.port}", BOOT_ID))
            self.gone = threading.Event()
            self.muted = False
            self._ready.set()
            while not self._stop.wait(STEP_S):
                if not self.deaf:
                    self._step(session)
            session.zk.close()
            self.gone.set()
            self.may_end.wait(LIMIT_S)

    def __init__(self, settings: Settings, consumer: str) -> None:
        super().__init__(settings, consumer)
        self.may_end = threading.Event()
        self.muted = False

    def status(self) -> bytes:
        if self.muted:
            self.may_end.wait(LIMIT_S)  # what is still connected hears nothing either
        return super().status()

    def refuse(self) -> None:
        """Nobody listens any more, and nobody acts."""
        self.deaf = self.muted = True
        self._close_server()

    def drop(self) -> None:
        """The host takes no packet any more, and nobody there hears of anything."""
        self.refuse()
        self.host.enter_context(full_backlog(self.port))

    def die(self) -> None:
        """The session ends; the host stays as it is."""
        self._stop.set()
        assert self.gone.wait(20)

    def stop(self) -> None:
        self.may_end.set()
        super().stop()


class Cluster:
    """A cluster with one topic, and the coordinator that the test steps."""

    def __init__(self, c: Coordinator, settings: Settings) -> None:
        self.c, self.settings, self.topic = c, settings, settings.cluster
        self.stubs: list[StubConsumer] = []

    def join(self, name: str, kind: type[StubConsumer] = StubConsumer) -> StubConsumer:
        self.stubs.append(kind(self.settings, name).start())
        return self.stubs[-1]

    def step(self) -> TopicReport:
        (report,) = transitions.step(self.c, [self.topic], LOOP)
        return report

    def stored(self) -> tuple[TopicNode, TopicState]:
        node, state = self.c.paths.topic(self.topic), self.c.paths.state(self.topic)
        return decode_node(node, self.c.zk.get(node).data), decode_state(state, self.c.zk.get(state).data)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.step()
            return holds()

        wait_for(stepped, what, LIMIT_S)

    def stable(self, owners: str) -> None:
        def holds() -> bool:
            if self.c.zk.find(self.c.paths.state(self.topic)) is None:
                return False
            node, state = self.stored()
            return state.state is State.STABLE and set(node.assignments.values()) == set(owners)

        self.until(holds, f"Stable with {owners}")

    def isolated_by(self, consumer: str) -> str:
        path = self.c.paths.directive(consumer)
        found = self.c.zk.find(path)
        directive = decode_directive(path, found.data, consumer, 0) if found is not None else None
        return directive.isolation.by if directive is not None and directive.isolation is not None else ""

    def ended(self, consumer: str) -> dict[int, Ending]:
        path = self.c.paths.id(consumer)
        return dict(decode_claim(path, self.c.zk.get(path).data, consumer, 0).ended)


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Cluster]:
    name = f"s{uuid.uuid4().hex[:8]}"
    policy = replace(QUICK, settle_s=0.0, settle_max_s=0.5, absent_after_s=2.0)
    broker = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": "1"}
    settings = Settings(
        name, zookeeper.connect_string, broker, session_timeout_s=1.0, ask_timeout_s=ASK_S, policy=policy
    )
    ConfluentKafkaAdmin(broker).create_topic(name, PARTITIONS)
    with open_coordinator(settings) as c:
        topics.add_topic(c, name, f"g-{name}", actor=PERSON)
        made = Cluster(c, settings)
        yield made
        for stub in made.stubs:
            stub.stop()


def hosted_beside_b(cluster: Cluster) -> Hosted:
    """Consumer a, whose address can be changed, shares the topic with b; Stable."""
    hosted = cluster.join("a", Hosted)
    assert isinstance(hosted, Hosted)
    cluster.join("b")
    cluster.stable("ab")
    return hosted


@pytest.mark.parametrize("host", [full_backlog, dropped_packets], ids=["full backlog", "dropped packets"])
def test_the_limit_holds_for_hosts_that_drop_packets_and_they_are_no_refusal(
    host: Callable[[], AbstractContextManager[str]],
) -> None:
    with host() as address:
        client = HttpStatusClient("c", limit_s=ASK_S)
        try:
            began = time.monotonic()
            answers = client.ask([Member(f"a{number}", 1, address, "") for number in range(20)])
            took_s = time.monotonic() - began
        finally:
            client.close()
    assert all(isinstance(one, Unreachable) and one.silence is Silence.SILENT for one in answers.values())
    assert took_s < 20 * ASK_S, "all at once, not one after the other"


def test_a_registered_consumer_behind_dropped_packets_is_named_and_never_isolated_and_others_go_on(
    cluster: Cluster,
) -> None:
    silent = hosted_beside_b(cluster)
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
