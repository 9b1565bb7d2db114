"""A consumer with a log-in connects to no broker that a node names."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Consumer, Ledger
from tests.integration.test_real_kafka import with_login
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.partitions(2)]


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
def rogue() -> Iterator[RogueBroker]:
    made = RogueBroker()
    yield made
    made.close()


def test_a_consumer_logs_in_at_its_own_brokers_only(site: Site, kafka: SaslKafka, rogue: RogueBroker) -> None:
    site.settings = with_login(site.settings, kafka, "alice-secret")
    site.node = replace(site.node, bootstrap_servers=rogue.address)
    rows = Ledger()
    consumer = Consumer(site, "a", rows)
    try:
        site.assign(dict.fromkeys(range(2), "a"))
        site.produce(20)
        wait_for(lambda: [len(rows.offsets(p)) for p in range(2)] == [20] * 2, "everything is consumed")
        wait_for(lambda: all(one.offset == 20 for one in site.committed().values()), "everything is committed")
        assert (consumer.code, site.status("a").health, site.topic_status("a").reports) == (None, "ok", ())
    finally:
        assert consumer.close() == 0
    assert rogue.connections == 0
