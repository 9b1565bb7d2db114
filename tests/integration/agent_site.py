"""A site for agents on real servers: the test writes topic nodes as the coordinator would, and asks the interfaces."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Producer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.core.codecs.codec import decode_release, encode_node
from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.codecs.status_codec import decode_status
from coordinator_tasks.core.model import (
    Committed,
    ConsumerStatus,
    Handoff,
    Release,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.wiring import Settings, open_zookeeper

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"log_level": "1"}  # the broker ends before the clients do


@dataclass
class Site:
    """One cluster, topic and group of its own on the shared servers."""

    zookeeper: str
    kafka: str
    partitions: int = 4
    cluster: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:8]}")
    session_timeout_s: float = 4.0
    access: ZooKeeperAccess = field(default_factory=ZooKeeperAccess)

    def __post_init__(self) -> None:
        self.topic = f"orders-{self.cluster}"
        self.group = f"group-{self.cluster}"
        self.paths = Paths(self.cluster)
        self.settings = Settings(
            self.cluster,
            self.zookeeper,
            {**QUIET, "bootstrap.servers": self.kafka},
            zookeeper_access=self.access,
            session_timeout_s=self.session_timeout_s,
        )
        self.zk: KazooZooKeeper = open_zookeeper(self.settings)
        self.admin = ConfluentKafkaAdmin({**QUIET, "bootstrap.servers": self.kafka})
        self.admin.create_topic(self.topic, self.partitions)
        wait_for(self._is_described, "a broker knows the topic")
        self.offsets = ConfluentGroupOffsets({**QUIET, "bootstrap.servers": self.kafka}, self.group)
        self.producer = Producer({**QUIET, "bootstrap.servers": self.kafka, "linger.ms": 2, "enable.idempotence": True})
        for folder in self.paths.folders():
            self.zk.ensure(folder)
        self.node = TopicNode(self.kafka, self.group, 0, "g1", self._topic_id, initial_partitions=self.partitions)

    @property
    def where(self) -> tuple[str, ...]:
        """The options that lead a consumer here."""
        return ("--cluster", self.cluster, "--zookeeper", self.zookeeper, "--kafka", self.kafka)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a process here."""
        return {
            "COORDINATOR_CLUSTER": self.cluster,
            "COORDINATOR_ZOOKEEPER": self.zookeeper,
            "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": self.kafka,
            "COORDINATOR_SESSION_TIMEOUT_S": f"{self.session_timeout_s:g}",
        }

    def plain_process(self, consumer: str, sink: Path) -> subprocess.Popen[bytes]:
        """A plain consumer as a process of its own."""
        command = (sys.executable, "-m", "spark_apps.plain", "--consumer", consumer, "--sink", str(sink))
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **self.environment})

    def _is_described(self) -> bool:
        """Keeps the topic's id. Of several brokers, one that has not made the topic may answer before it knows of it."""
        described = self.admin.describe([self.topic])[self.topic]
        self._topic_id = described.topic_id if described is not None else ""
        return described is not None

    def write(self, node: TopicNode) -> TopicNode:
        """The next epoch of the topic node, and the partition nodes with the first."""
        self.node = replace(node, epoch=self.node.epoch + 1)
        path, data = self.paths.topic(self.topic), encode_node(self.node)
        found = self.zk.find(path)
        if found is None:
            children = [Create(self.paths.partition(self.topic, p)) for p in range(self.partitions)]
            self.zk.transact([Create(path, data), *children])
        else:
            self.zk.transact([SetData(path, data, found.stat.version)])
        return self.node

    def assign(self, owners: Mapping[int, str], *, guarded: frozenset[int] = frozenset()) -> TopicNode:
        """Everything assigned at once, as after a barrier; what changes its owner is held since this epoch."""
        epoch = self.node.epoch + 1
        same = {p for p, owner in owners.items() if self.node.assignments.get(p) == owner and p not in guarded}
        since = {p: self.node.since[p] if p in same else epoch for p in owners}
        incarnations = {name: self.incarnation(name) for name in set(owners.values())}
        return self.write(
            replace(
                self.node,
                assignments=dict(owners),
                since=since,
                handoff={},
                guarded=guarded,
                incarnations={**self.node.incarnations, **incarnations},
            )
        )

    def hand_off(self, moves: Mapping[int, str]) -> TopicNode:
        """Each partition leaves its owner for another one by a hand-off."""
        epoch = self.node.epoch + 1
        entries = {p: Handoff(self.node.assignments[p], taker, epoch) for p, taker in moves.items()}
        left = {p: owner for p, owner in self.node.assignments.items() if p not in moves}
        incarnations = {name: self.incarnation(name) for name in set(moves.values())}
        return self.write(
            replace(
                self.node,
                assignments=left,
                since={p: self.node.since[p] for p in left},
                handoff=entries,
                guarded=self.node.guarded - moves.keys(),
                incarnations={**self.node.incarnations, **incarnations},
            )
        )

    def incarnation(self, consumer: str) -> int:
        path = self.paths.member(consumer)
        return decode_member(path, self.zk.get(path).data).incarnation

    def status(self, consumer: str) -> ConsumerStatus:
        path = self.paths.member(consumer)
        address = decode_member(path, self.zk.get(path).data).address
        return ask(address)

    def topic_status(self, consumer: str) -> TopicStatus:
        return self.status(consumer).topics[self.topic]

    def runs(self, consumer: str) -> dict[int, bool]:
        """Partition → whether it is started."""
        found = self.status(consumer).topics.get(self.topic)
        return {} if found is None else {p: one.started for p, one in found.running.items()}

    def committed(self) -> Mapping[int, Committed]:
        return self.offsets.committed(self.topic, range(self.partitions))

    def positions(self) -> dict[int, int]:
        """Partition → what is committed, in the order of the partitions."""
        return {partition: one.offset for partition, one in sorted(self.committed().items())}

    def release(self, partition: int) -> Release | None:
        path = self.paths.partition(self.topic, partition)
        return decode_release(path, self.zk.get(path).data)

    def produce(self, per_partition: int, start: int = 0) -> None:
        for number in range(start, start + per_partition):
            for partition in range(self.partitions):
                self.producer.produce(self.topic, str(number).encode(), partition=partition)
        self.producer.flush()

    def close(self) -> None:
        self.zk.close()


def another_topic(site: Site, name: str = "later") -> Site:
    """A second topic of the same cluster and group."""
    other = copy(site)
    other.topic = f"{name}-{site.cluster}"
    site.admin.create_topic(other.topic, site.partitions)
    described = site.admin.describe([other.topic])[other.topic]
    assert described is not None
    other.node = TopicNode(site.kafka, site.group, 0, "g1", described.topic_id, initial_partitions=site.partitions)
    return other


def ask(address: str, timeout_s: float = 5.0) -> ConsumerStatus:
    with urllib.request.urlopen(f"{address}/v1/status", timeout=timeout_s) as answer:
        return decode_status(address, answer.read())


def wait_for(holds: Callable[[], object], what: str, timeout_s: float = 60.0) -> float:
    """Seconds until `holds`; the longer it takes, the less often it is asked, since every answer takes from the waited-for."""
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < timeout_s:
        if holds():
            return time.monotonic() - began
        time.sleep(min(max(0.01, waited_s / 20), 0.25))
    raise AssertionError(f"not within {timeout_s:g} s: {what}")


class Traffic:
    """Produces steadily to every partition until it is closed."""

    def __init__(self, site: Site, per_second: float = 200.0, value: Callable[[int], str] = json.dumps) -> None:
        self.site = site
        self.sent = 0
        self._value = value
        self._pause = 1 / per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            for partition in range(self.site.partitions):
                self.site.producer.produce(self.site.topic, self._value(self.sent).encode(), partition=partition)
            self.sent += 1
            self.site.producer.poll(0)

    def close(self) -> int:
        self._stop.set()
        self._thread.join()
        self.site.producer.flush()
        return self.sent
