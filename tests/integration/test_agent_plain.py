"""Plain consumers on real ZooKeeper and Kafka; the test writes what the coordinator would."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.plain import Output, Record
from tests.integration.agent_site import Site, Traffic, another_topic, ask, wait_for
from tests.integration.real_site import Consumer, Ledger

pytestmark = [pytest.mark.integration, pytest.mark.promise]


def test_a_hand_off_moves_two_partitions_and_disturbs_no_other(site: Site) -> None:
    rows = Ledger()
    one, two = Consumer(site, "a", rows), Consumer(site, "b", rows)
    site.assign(dict.fromkeys(range(4), "a"))
    wait_for(lambda: site.runs("a") == dict.fromkeys(range(4), True), "a runs everything")
    traffic = Traffic(site)
    wait_for(lambda: len(rows.rows) > 400, "records flow")
    node = site.hand_off({2: "b", 3: "b"})
    took = wait_for(lambda: rows.last(2) == "b" and rows.last(3) == "b", "b has taken over")
    wait_for(lambda: site.runs("b") == {2: True, 3: True}, "b runs what it took")
    wait_for(lambda: site.runs("a") == {0: True, 1: True}, "a has let go")
    count = len(rows.rows)
    wait_for(lambda: len(rows.rows) > count + 400, "records go on")
    sent = traffic.close()
    wait_for(lambda: all(len(rows.offsets(p)) >= sent for p in range(4)), "everything is consumed")
    assert {p: rows.offsets(p) for p in range(4)} == {p: list(range(sent)) for p in range(4)}
    release = site.release(2)
    assert release is not None
    assert (release.epoch, release.by) == (node.epoch, "a")
    assert {epoch for consumer, _, epoch in rows.owners(2) if consumer == "b"} == {node.epoch}
    print(f"\nhand-off between plain consumers: {took * 1000:.0f} ms until the taker's first record")
    assert (one.close(), two.close()) == (0, 0)


def test_a_fenced_zombie_stops_within_a_second_though_its_picture_is_old(site: Site) -> None:
    rows = Ledger()
    one = Consumer(site, "a", rows)
    site.assign(dict.fromkeys(range(4), "a"))
    wait_for(lambda: site.runs("a") == dict.fromkeys(range(4), True), "a runs everything")
    newer = Committed(0, Token(99, 1, "g1"), "b", site.cluster, site.node.topic_id)
    site.offsets.commit(site.topic, {2: newer})
    took = wait_for(lambda: site.runs("a").keys() == {0, 1, 3}, "a lets go of what b has taken", 5)
    site.produce(20)
    wait_for(lambda: len(rows.offsets(0)) == 20, "the others go on")
    assert rows.offsets(2) == []
    assert site.committed()[2] == newer
    assert any("was taken by b" in text for text in site.topic_status("a").reports)
    print(f"\na fenced owner stopped after {took * 1000:.0f} ms")
    assert one.close() == 0


def test_a_sink_that_is_away_is_waited_for_and_a_poison_record_stops_its_partition_alone(site: Site) -> None:
    """Its consumer stays, reads no further where it waits, says why, and gives the partition away at once."""
    rows, gone, poison, other = Ledger(), threading.Event(), b"12", another_topic(site)

    def sink(topic: str, records: Sequence[Record]) -> None:
        if gone.is_set() and topic == site.topic:
            raise OSError("the database is gone")
        if any(r.partition == 1 and m.value() == poison for r, m in records) and topic == site.topic:
            raise ValueError("this sink does not bear 12")
        if topic == site.topic:
            rows.sink(one)(topic, records)

    def committed(of: Site = site) -> dict[int, int]:
        return of.positions()

    one, two = Consumer(site, "a", Output(sink)), Consumer(site, "b", rows)
    site.produce(10)
    for each in (site, other):
        each.assign(dict.fromkeys(range(4), "a"))
    wait_for(lambda: committed() == dict.fromkeys(range(4), 10), "10 pass")
    gone.set()
    site.produce(10, start=10)
    other.produce(20)
    wait_for(lambda: committed(other) == dict.fromkeys(range(4), 20), "the other topic goes on")
    why = "OSError: the database is gone"

    def waiting() -> set[int]:
        """The partitions that wait, in one batch or in several."""
        return {p for failure in site.topic_status("a").failures if failure.why == why for p in failure.partitions}

    wait_for(lambda: waiting() == set(range(4)), "it is said")
    failing = f"failing: topic {site.topic}: partition"
    wait_for(lambda: (now := site.status("a").health).startswith(failing) and why in now, "its health says so", 5)
    assert committed() == dict.fromkeys(range(4), 10)
    gone.clear()
    wait_for(lambda: committed() == {0: 20, 1: 12, 2: 20, 3: 20}, "the others go on")
    (failure,) = site.topic_status("a").failures
    assert (failure.partitions, failure.why) == ((1,), "ValueError: this sink does not bear 12")
    site.produce(10, start=20)
    wait_for(lambda: committed() == {0: 30, 1: 12, 2: 30, 3: 30}, "and on")
    site.hand_off({1: "b"})
    took_s = wait_for(lambda: site.release(1) is not None, "the partition is released")
    assert took_s < 2, "a close waits for no retry"
    wait_for(lambda: rows.offsets(1) == list(range(30)), "b, which bears it, goes on from there")
    assert {p: rows.offsets(p) for p in range(4)} == {p: list(range(30)) for p in range(4)}
    wait_for(lambda: site.status("a").health == "ok", "nothing fails any more")
    assert (one.close(), two.close()) == (0, 0)


def test_without_zookeeper_consumers_go_on_and_come_back(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as own:
        site = Site(own.connect_string, kafka.bootstrap_servers)
        rows = Ledger()
        one = Consumer(site, "a", rows)
        site.assign(dict.fromkeys(range(4), "a"))
        wait_for(lambda: site.runs("a") == dict.fromkeys(range(4), True), "a runs everything")
        path = site.paths.member("a")
        address = decode_member(path, site.zk.get(path).data).address
        own.kill()
        wait_for(lambda: ask(address).health == "detached", "a notices")
        site.produce(50)
        wait_for(lambda: all(len(rows.offsets(p)) == 50 for p in range(4)), "a goes on")
        wait_for(lambda: all(one.offset == 50 for one in site.committed().values()), "a commits")
        assert any("going on with what is known" in text for text in ask(address).reports)
        own.start()
        wait_for(lambda: ask(address).health == "ok", "a is back")
        site.assign({0: "a", 1: "a"})
        wait_for(lambda: site.runs("a").keys() == {0, 1}, "a acts on what is written now")
        assert one.close() == 0
        site.close()
