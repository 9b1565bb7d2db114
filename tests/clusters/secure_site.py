"""Servers as a careful site has them: Kafka with SASL_SSL and rights, ZooKeeper with TLS and separate accounts."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from kazoo.security import make_digest_acl_credential

from coordinator_tasks.core.protocol.kafka_rights import Resource, Side, needed
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import Settings, settings_of
from tests.certificates import Authority, tls_settings
from tests.integration.secure_kafka import Secure, secure_kafka
from tests.stable import stable_node

STATUS_TOKEN = "status-token-of-the-site"
LOGINS = {Side.COORDINATOR: ("coordinator", "pw-one"), Side.CONSUMER: ("consumers", "pw-two")}
"""The accounts in ZooKeeper."""


def digest(side: Side) -> str:
    """How an access list names the account."""
    return f"digest:{make_digest_acl_credential(*LOGINS[side])}"


@dataclass
class SecureSite:
    """One cluster on them."""

    folder: Path
    authority: Authority
    kafka: Secure
    zookeeper: str
    cluster: str = field(default_factory=lambda: f"c{uuid.uuid4().hex[:8]}")
    sent: int = 0

    def access(self, side: Side) -> dict[str, Any]:
        """`zookeeper_access` of a side."""
        user, password = LOGINS[side]
        other = {"consumers": [digest(Side.CONSUMER)]}
        if side is Side.CONSUMER:
            other = {"coordinator": [digest(Side.COORDINATOR)]}
        return {"user": user, "password": password, "ca": str(self.authority.ca), **other}

    def plain(self, side: Side) -> dict[str, Any]:
        """A settings file's content."""
        return {
            "cluster": self.cluster,
            "zookeeper": self.zookeeper,
            "zookeeper_access": self.access(side),
            "kafka": self.kafka.kafka(side),
            "status_token": STATUS_TOKEN,
            "session_timeout_s": 4.0,
        }

    def settings(self, side: Side) -> Settings:
        return settings_of(self.plain(side))

    def settings_file(self, side: Side) -> Path:
        """With the settings of a side, for its owner only."""
        return self._private(f"{side}.json", self.plain(side))

    def kafka_file(self, side: Side) -> Path:
        """With Kafka's settings of a side alone, in the same way."""
        return self._private(f"{side}-kafka.json", self.kafka.kafka(side))

    def _private(self, name: str, content: Mapping[str, Any]) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path

    def connections(self) -> dict[str, dict[str, Any]]:
        """Airflow's two connections, of the package's own types; consumers that are launched get their own accounts."""
        user, password = LOGINS[Side.COORDINATOR]
        access = {name: value for name, value in self.access(Side.COORDINATOR).items() if name in ("ca", "consumers")}
        zookeeper = {
            "status_token": STATUS_TOKEN,
            "session_timeout_s": 4,
            "zookeeper_access": access,
            "consumer_zookeeper": self.access(Side.CONSUMER),
            "consumer_kafka": self.kafka.kafka(Side.CONSUMER),
        }
        brokers = dict(self.kafka.kafka(Side.COORDINATOR))
        host, _, port = self.zookeeper.partition(":")
        broker, _, broker_port = brokers.pop("bootstrap.servers").partition(":")
        return {
            "zookeeper_default": {
                "conn_type": "kafka_coordinator_zookeeper",
                "host": host,
                "port": int(port),
                "login": user,
                "password": password,
                "extra": json.dumps(zookeeper),
            },
            "kafka_default": {
                "conn_type": "kafka_coordinator_kafka",
                "host": broker,
                "port": int(broker_port),
                "login": brokers.pop("sasl.username"),
                "password": brokers.pop("sasl.password"),
                "extra": json.dumps(brokers),
            },
        }

    def process(self, name: str, *command: str, env: Mapping[str, str]) -> ManagedProcess:
        """A process whose working folder is not the checkout."""
        spec = ProcessSpec(name, command, self.folder / f"{name}.log", env={**env, "PYTHONPATH": ""}, cwd=self.folder)
        return ManagedProcess(spec, ready=lambda: True)

    def make_topic(self, topic: str, group: str, partitions: int) -> None:
        """A topic, with the rights that coordinator and consumers need on it and on its group."""
        admin = self.kafka.admin()
        for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result(30)
        names = {Resource.TOPIC: topic, Resource.GROUP: group}
        rights = [(side, right) for side in Side for right in needed(side, transactional=False)]
        bindings = [self.kafka.binding(side, right, names[right.resource]) for side, right in rights]
        for done in admin.create_acls(bindings).values():
            done.result(30)

    def produce(self, topic: str, partitions: int, per_partition: int, value: Mapping[str, Any] | None = None) -> None:
        """Records as an administrator sends them, numbered over all calls."""
        producer = Producer({"bootstrap.servers": self.kafka.broker.bootstrap_servers, "log_level": "1"})
        for _ in range(per_partition):
            for partition in range(partitions):
                producer.produce(topic, json.dumps({"sequence": self.sent, **(value or {})}), partition=partition)
            self.sent += 1
        producer.flush()


def owners(c: Coordinator, topic: str, partitions: int) -> set[str]:
    """Who owns partitions of the topic, once it is Stable with an owner for each; else nobody."""
    node = stable_node(c.zk.find, c.paths, topic)
    return set(node.assignments.values()) if node is not None and len(node.assignments) == partitions else set()


@contextmanager
def secure_site(folder: Path) -> Iterator[SecureSite]:
    """Starts both servers."""
    authority, port = Authority(folder / "certificates", "site"), free_port()
    folder.chmod(0o700)
    served = tls_settings(authority, authority.sign("zookeeper"), port, "none")
    with (
        EmbeddedZooKeeper(folder / "zookeeper", settings=served),
        secure_kafka(folder / "certificates", authority) as kafka,
    ):
        yield SecureSite(folder, authority, kafka, f"127.0.0.1:{port}")
