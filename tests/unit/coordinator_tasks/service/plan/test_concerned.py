"""A decision on some topics reads and asks only what these topics concern, and decides as if it had seen everything."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_tasks.core.errors import LookAgain
from coordinator_tasks.core.model import Member, TopicNode
from coordinator_tasks.service.nodes import store
from coordinator_tasks.service.nodes.concerned import Links
from coordinator_tasks.service.plan import transitions
from tests.fakes.counted import counted
from tests.world.site import LOOP, Site

WANTS = {"a": ("orders",), "b": ("orders",), "c": ("bills",), "d": ("bills", "audits"), "e": ("audits",)}
TOPICS = ("audits", "bills", "orders")


def there(wants: Mapping[str, tuple[str, ...]]) -> Site:
    """A site whose consumers registered for these topics, and have all partitions."""
    site = Site()
    for topic in TOPICS:
        site.add_topic(topic)
    for consumer, topics in wants.items():
        site.starts(consumer, topics=topics)
    site.settles()
    return site


def test_only_consumers_of_linked_topics_are_asked_and_only_linked_topics_are_read() -> None:
    site = there(WANTS)
    c, requests = counted(site.coordinator)
    transitions.plan(c, ["orders"], LOOP)
    assert set(requests.polls) == {("a", "b")}
    assert not requests.nodes[site.paths.state("bills")]
    transitions.plan(c, ["bills"], LOOP)
    assert requests.polls[-1] == ("c", "d", "e")
    assert requests.nodes[site.paths.state("audits")]
    assert not requests.nodes[site.paths.id("a")] - 1


def test_a_confirmation_asks_the_consumers_of_its_topics_alone() -> None:
    site = there(WANTS)
    site.starts("f", topics=("bills",))
    transitions.plan(site.coordinator, ["bills"], LOOP)
    c, requests = counted(site.coordinator)
    transitions.await_closed(c, ["bills"])
    assert requests.polls == [("c", "d", "f")]


def test_an_owner_whose_registration_no_longer_lists_the_topic_is_asked() -> None:
    site = there(WANTS)
    site.loses_session("a")
    site.starts("a", topics=("bills",))
    c, requests = counted(site.coordinator)
    transitions.plan(c, ["orders"], LOOP)
    assert "a" in requests.polls[0]
    assert set(site.node("orders").assignments.values()) == {"a", "b"}, "the former process may still run them"


def test_a_registration_after_the_look_refuses_a_write_that_relies_on_an_owners_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = there(WANTS)
    site.dies("a")
    c, refused = site.coordinator, list[str]()
    members, commit = c.discovery.members, store.commit

    def late() -> Mapping[str, Member]:
        found = members()
        if "a" not in site.processes:
            site.starts("a", topics=("orders",))
        return found

    def noted(*given: Any) -> None:
        try:
            commit(*given)
        except LookAgain as error:
            refused.append(str(error))
            raise

    monkeypatch.setattr(c.discovery, "members", late)
    monkeypatch.setattr(store, "commit", noted)
    transitions.plan(c, ["orders"], LOOP)
    assert refused


@pytest.mark.parametrize("joins", [("orders",), ("bills",), ()])
def test_a_plan_of_one_topic_is_its_part_of_the_plan_of_all(joins: tuple[str, ...]) -> None:
    site = there(WANTS)
    site.starts("f", topics=joins)
    transitions.due(site.coordinator)  # notes the first answer
    site.clock.advance(10)
    whole = {one.topic: one for one in transitions.preview(site.coordinator, TOPICS)}
    assert any(one.moves for one in whole.values())
    for topic in TOPICS:
        (alone,) = transitions.preview(site.coordinator, [topic])
        assert (alone.moves, alone.outcome) == (whole[topic].moves, whole[topic].outcome)
        assert alone.explanation == whole[topic].explanation


names = st.sampled_from("abcdef")
topics = st.sampled_from(["t1", "t2", "t3", "t4"])


@settings(deadline=None)
@given(
    st.dictionaries(names, st.sets(topics, min_size=1, max_size=2)), st.dictionaries(topics, st.sets(names, max_size=2))
)
def test_topics_are_in_one_group_exactly_if_a_chain_of_consumers_links_them(
    wants: Mapping[str, set[str]], owns: Mapping[str, set[str]]
) -> None:
    managed = ["t1", "t2", "t3", "t4"]
    members = {name: Member(name, 1, "http://h:1", "boot", topics=tuple(sorted(one))) for name, one in wants.items()}
    nodes = {t: TopicNode("h", "g", 1, "g", "id", incarnations=dict.fromkeys(one, 1)) for t, one in owns.items()}
    uses = {name: wants.get(name, set()) | {t for t, one in owns.items() if name in one} for name in "abcdef"}
    groups = list(Links(managed, nodes, members).groups(managed))
    assert sorted(topic for group in groups for topic in group.topics) == managed
    for group in groups:
        users = {name for name, used in uses.items() if used & group.topics}
        assert group.consumers == users
        assert all(uses[name] <= group.topics for name in users), "no link leads out of a group"
        first, *rest = sorted(group.topics)
        chain = {first}
        for _ in rest:
            chain |= {topic for used in uses.values() if used & chain for topic in used}
        assert chain == group.topics
