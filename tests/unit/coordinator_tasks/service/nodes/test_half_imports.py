"""An import that dies around any of its writes: a second import completes, and no half state gives a partition."""

from collections.abc import Iterator
from itertools import count

import pytest
from coordinator_plugin.reconcile import reconcile

from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.core.ports import Delete, ZooKeeper
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.service.nodes import state_file, topics
from coordinator_tasks.service.nodes.action_log import asked
from coordinator_tasks.service.nodes.state_file import StateFile
from tests.fakes.cluster import PERSON
from tests.unit.coordinator_tasks.service.nodes.test_state_file import elsewhere, exported, shop
from tests.world.site import Site

TOPICS = ("orders", "payments")
LAST = ("config/", "fleet/")
"""A topic and a fleet act as soon as their nodes are there."""
LEAST_WRITES = 10


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(state_file, "_WRITE_NODES", 1)  # a transaction for each node: the largest number of half states
    return shop()


def restored(site: Site, state: StateFile) -> None:
    state_file.restore(site.coordinator, state_file.plan(site.coordinator, state), PERSON, "moved")


def done(site: Site, state: StateFile) -> None:
    """Import to the end: all of the file is there, unchanged, with one record of the action."""
    restored(site, state)
    there = state_file.take(site.coordinator).nodes
    assert {path: there.get(path) for path in state.nodes} == state.nodes
    assert [one.action for one in asked(site.coordinator)].count("import") == 1


def half_states(old: Site, state: StateFile, *, applied: bool = False) -> Iterator[Site]:
    """Yield a cluster for each write of the import: the import died before, or with `applied` after this write."""
    for number in count():
        site = elsewhere(old)
        site.server.lose_write(number, applied=applied)
        try:
            restored(site, state)
        except StoreUnavailable:
            yield site
        else:
            assert number >= LEAST_WRITES
            return


@pytest.mark.parametrize("applied", [False, True])
def test_a_second_import_completes_also_beside_reconcile(old: Site, applied: bool) -> None:
    state = state_file.decode("shop.state", exported(old))
    for site in half_states(old, state, applied=applied):
        reconcile(site.coordinator)
        assert not owned(site)
        done(site, state)


def test_consumers_that_start_in_a_half_state_get_only_topics_of_which_all_is_there(old: Site) -> None:
    state, seen = state_file.decode("shop.state", exported(old)), set[tuple[str, ...]]()
    for site in half_states(old, state):
        needed = {one for one in state.nodes if not one.startswith(LAST)}
        missing = needed - state_file.take(site.coordinator).nodes.keys()
        topics.refresh_partitions(site.coordinator)
        site.starts("a", "b")
        site.settles()
        found = owned(site)
        seen.add(tuple(found))
        assert not (found and missing)
        for topic in found:
            site.check(topic)
            before = old.node(topic)
            # The world's offsets are all of the first topic.
            assert topic != "orders" or site.node(topic).epoch > before.epoch
            assert all(number > before.incarnations[name] for name, number in site.node(topic).incarnations.items())
        refused(site, state, "consumers are registered")
        for consumer in "ab":
            site.dies(consumer)
        refused(site, state, "is not empty")
        remove(site.zk, site.paths.base)
        done(site, state)
    assert seen == {(), TOPICS[:1], TOPICS}


def owned(site: Site) -> list[str]:
    """Return the topics with partitions that a consumer owns or gets."""
    nodes = {one: site.zk.find(site.paths.topic(one)) for one in TOPICS}
    there = [topic for topic, node in nodes.items() if node is not None and node.data]
    return [one for one in there if site.node(one).assignments or site.node(one).handoff]


def refused(site: Site, state: StateFile, said: str) -> None:
    before = site.server.zxid
    with pytest.raises(Refused, match=said):
        state_file.plan(site.coordinator, state)
    assert site.server.zxid == before


def remove(zk: ZooKeeper, path: str) -> None:
    """Remove the tree, as the refusal tells a person."""
    for name in children(zk, path):
        remove(zk, f"{path}/{name}")
    zk.transact([Delete(path)])
