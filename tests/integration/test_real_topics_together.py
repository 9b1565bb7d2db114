"""Many topics of one partition on real servers: consumers share all of them, through a death and a join."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
SMALL = 11
Held = dict[tuple[str, int], tuple[str, int]]
"""Topic and partition → owner, and the epoch at which the holding began: a move there and back changes the epoch."""


@contextmanager
def shop(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    """Topics of one partition in one group."""
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=1))
    site = made.site
    try:
        with open_coordinator(site.settings) as c:
            for name in names(site)[1:]:
                site.admin.create_topic(name, 1)
                wait_for(lambda: site.admin.describe([name])[name] is not None, f"a broker knows {name}")  # noqa: B023
                topics.add_topic(c, name, site.group, actor=PERSON)
        yield made
    finally:
        made.close()


def names(site: Site) -> list[str]:
    return [site.topic, *(f"{site.topic}-{number}" for number in range(SMALL))]


def shared(site: Site, consumers: Sequence[str]) -> Held:
    """Wait until all topics are Stable, exactly these consumers have everything, and counts differ by at most one."""
    found: Held = {}

    def settled() -> bool:
        found.clear()
        for name in names(site):
            node = stable_node(site.zk.find, site.paths, name)
            if node is None or not node.assignments:
                return False
            found.update({(name, p): (owner, node.since[p]) for p, owner in node.assignments.items()})
        counts = totals(found)
        return counts.keys() == set(consumers) and max(counts.values()) - min(counts.values()) <= 1

    wait_for(settled, f"{', '.join(consumers)} share everything", LIMIT_S)
    return found


def totals(held: Held) -> Counter[str]:
    """Consumer → its partitions of all topics."""
    return Counter(owner for owner, _ in held.values())


def test_a_killed_consumer_of_many_small_topics_costs_only_its_own_partitions_a_move(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka
) -> None:
    with shop(zookeeper, kafka) as managed:
        site = managed.site
        doomed = site.plain_process("c", Path(os.devnull))
        try:
            managed.join("a")
            managed.join("b")
            wait_for(lambda: site.zk.find(site.paths.member("c")), "c registers", LIMIT_S)
            with managed.looping():
                before = shared(site, "abc")
                assert totals(before) == {"a": 4, "b": 4, "c": 4}
                doomed.kill()
                survived = shared(site, "ab")
                assert {at for at in before if survived[at] != before[at]} == {
                    at for at, (owner, _) in before.items() if owner == "c"
                }
                managed.join("d")
                after = shared(site, "abd")
                moved = [at for at in survived if after[at] != survived[at]]
                assert (totals(after), len(moved)) == ({"a": 4, "b": 4, "d": 4}, 4)
        finally:
            doomed.kill()
            doomed.wait()
