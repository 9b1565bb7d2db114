"""A listener and an interceptor of plain consumers on real servers: when they are told, and what waits for them."""

import threading
from collections.abc import Iterator, Mapping

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks
from tests.integration.agent_site import Rows, Running, Site, wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Site]:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2)
    yield made
    made.close()


class Listener(ConsumerRebalanceListener, ConsumerInterceptor):
    """Takes down what it is told; a revocation waits for `flushed`."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[int, int]]] = []
        self.commits: dict[int, int] = {}
        self.flushed = threading.Event()
        self.start_at: dict[int, int] = {}

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, int]:
        self.told.append(("assigned", dict(offsets)))
        return self.start_at

    def on_partitions_revoked(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.told.append(("revoked", dict(offsets)))
        self.flushed.wait(30)
        raise ZeroDivisionError

    def on_partitions_lost(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.told.append(("lost", dict(offsets)))

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.commits |= offsets


def test_the_release_waits_for_the_flush_and_the_taker_begins_at_the_final_offset(site: Site) -> None:
    rows, mine, others = Rows(), Listener(), Listener()
    mine.start_at = {1: 5}
    one = Running(site, "a", rows, hooks=Hooks(mine, [mine]))
    two = Running(site, "b", rows, hooks=Hooks(others))
    site.produce(20)
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: len(rows.rows) == 35, "everything is consumed")
    assert [offsets for _, offsets in mine.told if offsets] in ([{0: 0, 1: 0}], [{0: 0}, {1: 0}])
    assert rows.offsets(1) == list(range(5, 20))
    wait_for(lambda: mine.commits == {0: 20, 1: 20}, "the interceptor is told of the commits")
    site.hand_off({1: "b"})
    wait_for(lambda: mine.told[-1] == ("revoked", {1: 20}), "a is told before it releases")
    site.produce(5, start=20)
    wait_for(lambda: len(rows.offsets(0)) == 25, "what stays is not kept waiting")
    assert site.release(1) is None
    assert 1 in site.topic_status("a").running
    mine.flushed.set()
    wait_for(lambda: others.told == [("assigned", {1: 20})], "b is told where it begins")
    wait_for(lambda: len(rows.offsets(1)) == 20, "b goes on")
    assert any("on_partitions_revoked failed: ZeroDivisionError" in text for text in site.topic_status("a").reports)
    assert (one.leave(0.0), mine.told[-1]) == (0, ("revoked", {0: 25}))
    others.flushed.set()
    assert (two.leave(0.0), others.told[-1]) == (0, ("revoked", {1: 25}))
