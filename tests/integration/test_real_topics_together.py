"""Twelve topics of one partition on real servers, beside a larger one: consumers share all of them, through a join and a leave."""

from collections import Counter
from collections.abc import Iterator

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.wiring import open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import LIMIT_S, Managed
from tests.stable import stable_node

pytestmark = [pytest.mark.integration, pytest.mark.promise]
SMALL = 12


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=3))
    yield made
    made.close()


def test_consumers_of_many_small_topics_share_them_through_a_join_and_a_leave(managed: Managed) -> None:
    site = managed.site
    names = [site.topic, *(f"{site.topic}-{number}" for number in range(SMALL))]

    def totals(*consumers: str) -> Counter[str]:
        """Consumer → its partitions of all topics, once all are Stable and nobody else has any."""
        found = Counter[str]()

        def settled() -> bool:
            found.clear()
            for name in names:
                node = stable_node(site.zk.find, site.paths, name)
                if node is None or not node.assignments:
                    return False
                found.update(node.assignments.values())
            counts = [found[one] for one in consumers]
            return found.keys() == set(consumers) and max(counts) - min(counts) <= 1

        wait_for(settled, f"{', '.join(consumers)} share everything", LIMIT_S)
        return found

    with open_coordinator(site.settings) as c:
        for name in names[1:]:
            site.admin.create_topic(name, 1)
            wait_for(lambda: site.admin.describe([name])[name] is not None, f"a broker knows {name}")  # noqa: B023
            topics.add_topic(c, name, site.group, actor=PERSON)
    managed.join("a")
    with managed.looping():
        assert totals("a") == {"a": SMALL + 3}
        managed.join("b")
        managed.join("c")
        assert totals("a", "b", "c") == {"a": 5, "b": 5, "c": 5}
        managed.consumers["c"].close()
        assert sum(totals("a", "b").values()) == SMALL + 3
