"""Two clusters side by side in one ZooKeeper, which read one topic for a group each."""

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import Site
from tests.integration.real_site import Managed

pytestmark = pytest.mark.integration


def test_clusters_that_share_a_topic_each_read_all_of_it_and_own_it_by_themselves(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka
) -> None:
    one = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2))
    other_site = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2)
    other_site.topic = one.site.topic
    other = Managed(other_site)
    try:
        one.join("a")
        other.join("a")  # an id belongs to its cluster
        other.join("b")
        with one.looping(), other.looping():
            one.stable("a")
            other.stable("ab")
            one.site.produce(40)
            one.consumed(40)
            other.consumed(40)
        one.judge(40)
        other.judge(40)
        assert {entry.owner for entry in one.site.committed().values()} == {"a"}
        assert {entry.owner for entry in other.site.committed().values()} == {"a", "b"}
    finally:
        one.close()
        other.close()
