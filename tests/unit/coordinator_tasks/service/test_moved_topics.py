"""A topic removed in one coordinator cluster and added in another: the waits of the second cluster."""

import pytest

from coordinator_tasks.core.errors import TopicConflict
from coordinator_tasks.core.model import Committed, StartRule, State, Token
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON
from tests.world.site import LOOP, Site, stable_site

NOBODY = "the topic was removed, and nobody runs anything of it"


@pytest.fixture
def former() -> Site:
    """`a` and `b` share the topic, and have committed."""
    return stable_site("a", "b")


def other(former: Site) -> Site:
    """Another cluster in the same ZooKeeper and Kafka."""
    return Site("web", former.clock, former.kafka, server=former.server)


def added(former: Site, *consumers: str) -> Site:
    """The topic, added in another cluster with these consumers; the first plan is written."""
    site = other(former)
    site.starts(*consumers)
    topics.add_topic(site.coordinator, "orders", "g", actor=PERSON)
    said(site)
    return site


def said(site: Site) -> str:
    """A step of the plain loop, after the consumers have acted."""
    site.everybody_acts()
    (report,) = transitions.step(site.coordinator, ["orders"], LOOP)
    return report.reason


def running(site: Site) -> dict[str, set[int]]:
    return {who: set(one.running.get("orders", ())) for who, one in site.processes.items()}


def is_closed(site: Site) -> None:
    topics.remove_topic(site.coordinator, "orders", PERSON)
    site.settles()
    (report,) = transitions.preview(site.coordinator, ["orders"])
    assert report.reason == NOBODY
    assert running(site) == {"a": set(), "b": set()}


def test_the_other_cluster_waits_for_who_has_committed_last_and_continues_there(former: Site) -> None:
    group = former.kafka.offsets("g")
    entry = Committed(7, Token(1, 1, former.node().generation), "a", "shop", "id-1")
    group.commit("orders", {0: entry})
    is_closed(former)
    site = added(former, "x")
    assert site.counts() == {"a": 2, "b": 2}
    assert said(site) == "a is not registered and was not asked; b is not registered and was not asked"
    site.clock.advance(site.policy.absent_after_s - 1)
    said(site)
    assert running(site) == {"x": set()}
    site.clock.advance(2)
    site.settles()
    assert running(site) == {"x": {0, 1, 2, 3}}
    assert group.committed("orders", [0])[0].offset == 7


def test_a_person_ends_that_wait_by_isolating_them_there(former: Site) -> None:
    is_closed(former)
    site = added(former, "x")
    said(site)
    for consumer in ("a", "b"):
        directives.isolate(site.coordinator, consumer, by="ada", why="moved")
    began = site.clock.now()
    site.settles()
    assert running(site) == {"x": {0, 1, 2, 3}}
    assert site.clock.now() - began < site.policy.absent_after_s


@pytest.mark.parametrize(
    "acts", [False, True], ids=["no plan has closed it yet", "its consumers have not confirmed yet"]
)
def test_it_is_refused_until_the_former_cluster_has_closed(former: Site, *, acts: bool) -> None:
    topics.remove_topic(former.coordinator, "orders", PERSON)
    if acts:
        transitions.step(former.coordinator, ["orders"], LOOP)
        assert former.state().state is not State.STABLE
    site = other(former)
    before = former.server.zxid
    with pytest.raises(
        TopicConflict, match=r"cluster 'shop' has removed topic 'orders' for group 'g', and its consumers"
    ):
        topics.add_topic(site.coordinator, "orders", "g", actor=PERSON)
    assert former.server.zxid == before
    topics.would_add(
        site.coordinator, "orders", "h", start=StartRule.EARLIEST, strategy="", parameters={}, properties={}
    )
    former.settles()
    assert running(former) == {"a": set(), "b": set()}
    assert not topics.add_topic(site.coordinator, "orders", "g", actor=PERSON).removed


def test_consumers_that_have_ended_close_nothing_so_the_former_coordinator_is_named(former: Site) -> None:
    topics.remove_topic(former.coordinator, "orders", PERSON)
    for consumer in ("a", "b"):
        former.dies(consumer)
    former.clock.advance(86_400)
    site = other(former)
    with pytest.raises(TopicConflict, match=r"let its coordinator run until `topics` says there that nobody runs"):
        topics.add_topic(site.coordinator, "orders", "g", actor=PERSON)
    former.settles()
    assert not topics.add_topic(site.coordinator, "orders", "g", actor=PERSON).removed
