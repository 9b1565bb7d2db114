"""A consumer on a real Kafka with the documented rights connects to no broker that a node names."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import Rows, Running, Site, wait_for
from tests.integration.test_real_kafka import with_login
from tests.sasl_kafka import SaslKafka

pytestmark = pytest.mark.integration
DENIED_S = 4.0
"""Longer than a client takes to be told that its group is denied to it: 1.3 s."""


class RogueBroker:
    """Listens where a broker might be, and counts who connects."""

    def __init__(self) -> None:
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.connections += 1

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[SaslKafka]:
    """A broker that asks for rights on its SASL listener; on the other one everybody has all of them."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with SaslKafka(tmp_path / "kafka", users={"alice": "alice-secret"}, settings=settings) as broker:
        yield broker


@pytest.fixture
def rogue() -> Iterator[RogueBroker]:
    made = RogueBroker()
    yield made
    made.close()


def grant(kafka: SaslKafka, kind: ResourceType, name: str) -> None:
    """Read, which includes Describe: `docs/security.md`."""
    everything = ("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": "1"})
    for one in admin.create_acls([AclBinding(kind, name, ResourcePatternType.LITERAL, *everything)]).values():
        one.result(30)


def test_a_consumer_needs_the_documented_rights_only_and_logs_in_at_its_own_brokers_only(
    zookeeper: EmbeddedZooKeeper, strict: SaslKafka, rogue: RogueBroker
) -> None:
    site = Site(zookeeper.connect_string, strict.bootstrap_servers, partitions=2)
    grant(strict, ResourceType.TOPIC, site.topic)
    grant(strict, ResourceType.GROUP, site.group)
    site.settings = with_login(site.settings, strict, "alice-secret")
    site.node = replace(site.node, bootstrap_servers=rogue.address)
    rows = Rows()
    consumer = Running(site, "a", rows)
    try:
        site.assign(dict.fromkeys(range(2), "a"))
        sent, until = 0, time.monotonic() + DENIED_S
        while time.monotonic() < until:
            site.produce(10, start=sent)
            sent += 10
            wait_for(lambda: [len(rows.offsets(p)) for p in range(2)] == [sent] * 2, "everything is consumed")  # noqa: B023
        wait_for(lambda: all(one.offset == sent for one in site.committed().values()), "everything is committed")
        assert (consumer.code, site.status("a").health, site.topic_status("a").reports) == (None, "ok", ())
    finally:
        assert consumer.leave(0.0) == 0
        site.close()
    assert rogue.connections == 0
