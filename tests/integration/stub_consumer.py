"""A consumer that speaks the whole protocol and reads nothing: registration, interface, hand-offs, releases.

Dozens of topics cost it one ZooKeeper session and one thread. As a process (the launch tests submit it to Spark):
`python stub_consumer.py --consumer ID [--run-folder DIR] [--topics NAME ...]`, with its settings in the environment;
without `topics` it takes any.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.member_codec import decode_directive
from coordinator_tasks.core.codecs.status_codec import encode_status
from coordinator_tasks.core.errors import CoordinatorError, Malformed, NodeMissing
from coordinator_tasks.core.model import (
    ConsumerStatus,
    Member,
    Release,
    RunningPartition,
    Token,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.core.protocol import holding
from coordinator_tasks.signals import stopped_by
from coordinator_tasks.wiring import ConsumerSession, Settings, open_consumer_session, settings_from_environment

STEP_S = 0.05
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class StubConsumer:
    """Runs in a thread of its own between `start` and `stop`; `deaf` = it goes on answering, and acts on nothing.

    `topics`: those that it wants, none = any; `spark_ui`: where it says that its Spark UI is; `step_s`: between two looks.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: str,
        topics: tuple[str, ...] = (),
        *,
        spark_ui: str = "",
        step_s: float = STEP_S,
    ) -> None:
        self.settings = settings
        self.step_s = step_s
        self.topics = topics
        self.spark_ui = spark_ui
        self.consumer = consumer
        self.deaf = False
        self.lag: int | None = None  # of each partition
        self.incarnation = 0
        self._pictures: dict[str, TopicNode] = {}
        self._running: dict[str, dict[int, Token]] = {}
        self._released: dict[str, dict[int, int]] = {}
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stub-{consumer}", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20), f"{self.consumer} has not registered"
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)

    def running(self, topic: str) -> set[int]:
        return set(self._running.get(topic, {}))

    def _run(self) -> None:
        with open_consumer_session(self.settings) as session, _serve(self) as server:
            self.incarnation = session.claim_incarnation(self.consumer)
            address = f"http://127.0.0.1:{server.server_address[1]}"
            member = Member(
                self.consumer, self.incarnation, address, BOOT_ID, topics=self.topics, spark_ui=self.spark_ui
            )
            session.registry.register(member)
            self._ready.set()
            while not self._stop.wait(self.step_s):
                if not self.deaf:
                    self._step(session)
            with suppress(Malformed):  # a test has overwritten the registration; it ends with the session
                session.registry.deregister(self.consumer, self.incarnation)

    def _step(self, session: ConsumerSession) -> None:
        try:
            names = self.topics or session.zk.children(session.paths.assignments)
            nodes = session.zk.get_many([session.paths.topic(name) for name in names])
            path = session.paths.directive(self.consumer)
            directive = session.zk.find(path)
        except (NodeMissing, CoordinatorError):
            return
        isolated = bool(directive and decode_directive(path, directive.data, self.consumer, 0).isolation)
        for name, node in zip(names, nodes, strict=True):
            if node is not None and node.data:
                self._act(session, name, codec.decode_node(session.paths.topic(name), node.data), isolated)

    def _act(self, session: ConsumerSession, topic: str, seen: TopicNode, isolated: bool) -> None:
        if holding.accepts(self._pictures.get(topic), seen) is holding.Reading.ACT:
            self._pictures[topic] = seen
        picture, mine = self._pictures[topic], (self.consumer, self.incarnation)
        releases = {}
        for partition in holding.takes_over(picture, *mine, isolated):
            path = session.paths.partition(topic, partition)
            node = session.zk.find(path)
            if node is not None and node.data:
                release = codec.decode_release(path, node.data)
                if release is not None:
                    releases[partition] = release
        granted = holding.grants(picture, *mine, releases, isolated)
        running = self._running.setdefault(topic, {})
        released = self._released.setdefault(topic, {})
        todo = holding.changes(granted, running, (), holding.owes_release(picture, *mine, isolated), released)
        for partition in todo.stop:
            del running[partition]
        for partition in holding.changes(
            granted, running, (), holding.owes_release(picture, *mine, isolated), released
        ).release:
            entry = picture.handoff[partition]
            token = Token(entry.epoch - 1, self.incarnation, picture.generation)
            release = Release(entry.epoch, self.consumer, self.incarnation, 0, picture.generation, token)
            session.zk.transact([SetData(session.paths.partition(topic, partition), codec.encode_release(release))])
            released[partition] = entry.epoch
        running.update({grant.partition: grant.token for grant in todo.start})

    def status(self) -> bytes:
        """The answer of its interface."""
        found = {}
        for topic, picture in list(self._pictures.items()):
            running = {
                p: RunningPartition(0, token, started=True, lag_records=self.lag)
                for p, token in list(self._running[topic].items())
            }
            held = holding.may_hold(picture, self.consumer, self.incarnation, False)
            found[topic] = TopicStatus(picture.generation, picture.epoch, held, running)
        cluster = self.settings.cluster
        return encode_status(ConsumerStatus(self.consumer, cluster, self.incarnation, BOOT_ID, "ok", found))


@contextmanager
def _serve(consumer: StubConsumer) -> Iterator[ThreadingHTTPServer]:
    class Interface(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = consumer.status()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Interface)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()  # without it, the thread would ask a closed socket again and again
        server.server_close()


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--consumer", required=True)
    parser.add_argument("--run-folder", default="")
    parser.add_argument("--topics", nargs="*", default=[])
    given = parser.parse_args()
    stub = StubConsumer(settings_from_environment(), given.consumer, tuple(given.topics))
    with stopped_by(signal.SIGTERM) as ended, stub:
        if given.run_folder:
            (Path(given.run_folder) / "incarnation").write_text(f"{stub.incarnation}\n")
        print(f"{given.consumer} serves as process {os.getpid()}", flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
