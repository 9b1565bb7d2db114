"""What Kafka no longer has: the partition that is concerned stops and says so, and a plain consumer reads everything else."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import QUIET, Rows, Running, Site, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Site]:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    yield made
    made.close()


def said(site: Site, text: str) -> bool:
    return any(text in one for one in site.topic_status("a").reports)


def test_records_that_retention_has_deleted_stop_their_partition_and_no_other(site: Site) -> None:
    rows = Rows()
    one = Running(site, "a", rows)
    site.assign(dict.fromkeys(range(4), "a"))
    site.produce(20)
    wait_for(lambda: len(rows.rows) == 80, "everything is consumed")
    site.write(replace(site.node, paused=frozenset({2})))
    wait_for(lambda: site.topic_status("a").acted_epoch == site.node.epoch, "a has paused partition 2")
    site.produce(10, start=20)
    admin = AdminClient({**QUIET, "bootstrap.servers": site.kafka})
    admin.delete_records([TopicPartition(site.topic, 2, 25)])[TopicPartition(site.topic, 2)].result(10)
    site.write(replace(site.node, paused=frozenset()))
    sentence = "partition 2: offsets 20 to 24 are gone, the log begins at 25: stopped; reset its offsets"
    wait_for(lambda: said(site, sentence), "it is said")
    wait_for(lambda: site.runs("a") == {0: True, 1: True, 3: True}, "the others run")
    site.produce(10, start=30)
    wait_for(lambda: len(rows.rows) == 80 + 3 * 20, "the others are consumed")
    assert {p: rows.offsets(p) for p in (0, 1, 3)} == {p: list(range(40)) for p in (0, 1, 3)}
    assert rows.offsets(2) == list(range(20))
    assert one.leave(0.0) == 0


def test_a_topic_that_is_recreated_ends_the_reading_of_no_other_one(site: Site) -> None:
    other = Site(site.zookeeper, site.kafka, 1, site.cluster)
    other.topic = f"audit-{site.cluster}"
    other.admin.create_topic(other.topic, 1)
    described = other.admin.describe([other.topic])[other.topic]
    assert described is not None
    other.node = replace(other.node, topic_id=described.topic_id, group_id=f"{site.group}-audit")
    rows = Rows()
    one = Running(site, "a", rows)
    site.assign(dict.fromkeys(range(4), "a"))
    other.assign({0: "a"})
    other.produce(10)
    wait_for(lambda: len(rows.rows) == 10, "the other topic is consumed")
    admin = AdminClient({**QUIET, "bootstrap.servers": site.kafka})
    admin.delete_topics([other.topic])[other.topic].result(10)
    wait_for(lambda: other.admin.describe([other.topic])[other.topic] is None, "it is deleted")
    other.admin.create_topic(other.topic, 1)
    wait_for(lambda: "recreated in Kafka" in " ".join(other.topic_status("a").reports), "it is said")
    site.produce(10)
    wait_for(lambda: len(rows.rows) == 50, "this topic is consumed")
    assert site.status("a").health == "ok"
    assert one.leave(0.0) == 0
    other.close()
