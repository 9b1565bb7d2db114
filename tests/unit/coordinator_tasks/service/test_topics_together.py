"""All topics of a cluster are planned as one: what each consumer has of all of them, and how that is explained and reached."""

from collections import Counter
from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.model import State
from coordinator_tasks.service.nodes.directives import drain
from coordinator_tasks.service.nodes.topics import change_config
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.preview import preview
from tests.world.site import LOOP, Site, stable_site

SMALL = tuple(f"t{number:02d}" for number in range(12))


def totals(site: Site) -> Counter[str]:
    """Consumer → its partitions of all topics."""
    return sum((Counter(site.counts(topic)) for topic in transitions.topics(site.coordinator)), Counter())


def spread(site: Site, *consumers: str) -> int:
    counts = [totals(site)[one] for one in consumers]
    return max(counts) - min(counts)


def owners(site: Site) -> dict[tuple[str, int], str]:
    topics = transitions.topics(site.coordinator)
    return {(topic, p): owner for topic in topics for p, owner in site.node(topic).assignments.items()}


def moved(before: dict[tuple[str, int], str], after: dict[tuple[str, int], str]) -> int:
    return sum(1 for at, owner in before.items() if at in after and after[at] != owner)


def test_topics_that_were_added_one_by_one_stay_shared_through_a_leave_and_a_join() -> None:
    site = Site()
    site.starts("a", "b", "c")
    for topic in SMALL:
        site.add_topic(topic, 4)
        site.settles()
        assert spread(site, "a", "b", "c") <= 1
    before = owners(site)
    drain(site.coordinator, "c", by="ann", why="")
    site.settles()
    assert (totals(site)["a"], totals(site)["b"]) == (24, 24)
    assert moved(before, owners(site)) == 16
    site.starts("d")
    site.settles()
    assert [totals(site)[one] for one in "abd"] == [16, 16, 16]
    assert all(max(site.counts(topic).values()) <= 2 for topic in SMALL), "each topic by itself is even as well"


def test_what_is_frozen_paused_or_pinned_is_fixed_load() -> None:
    site = stable_site("a", partitions=4, names=("one", "two", "three"))
    change_config(site.coordinator, "one", lambda old: replace(old, frozen=True))
    change_config(site.coordinator, "two", lambda old: replace(old, paused=frozenset(range(3)), pins={3: "a"}))
    site.starts("b")
    site.settles()
    assert (site.counts("one"), site.counts("two"), site.counts("three")) == ({"a": 4}, {"a": 4}, {"b": 4})
    change_config(site.coordinator, "two", lambda old: replace(old, paused=frozenset(), pins={}))
    site.settles()
    assert totals(site) == {"a": 6, "b": 6}


@pytest.mark.parametrize("killed_after", range(1, 6))
def test_who_dies_between_two_topics_is_continued_by_the_rest_of_the_same_plan(killed_after: int) -> None:
    names = SMALL[:6]
    whole = stable_site("a", partitions=2, names=names)
    whole.starts("b", "c")
    whole.settles()
    site = stable_site("a", partitions=2, names=names)
    before = owners(site)
    site.starts("b", "c")
    site.clock.advance(2)
    transitions.plan(site.coordinator, names[:killed_after], LOOP)
    site.settles()
    assert totals(site) == {"a": 4, "b": 4, "c": 4}
    assert moved(before, owners(site)) == 8 == moved(before, owners(whole))


def test_two_that_plan_from_different_looks_end_in_one_plan() -> None:
    site = stable_site("a", partitions=1, names=SMALL)
    site.starts("b", "c")
    site.clock.advance(2)
    other = replace(site.coordinator, zk=site.server.connect())
    for number, topic in enumerate(SMALL):
        transitions.plan(other if number % 2 else site.coordinator, [topic], LOOP)
    site.settles()
    assert totals(site) == {"a": 4, "b": 4, "c": 4}
    lengths = [len(site.history(topic)) for topic in SMALL]
    site.settles()
    assert [len(site.history(topic)) for topic in SMALL] == lengths, "nothing is planned again and again"


def test_a_plan_is_what_its_preview_and_what_explain_say() -> None:
    site = stable_site("a", "b", partitions=1, names=SMALL)
    told = {one.topic: one for one in preview(site.coordinator, SiteChange(join=1))}
    site.starts("c")
    site.clock.advance(2)
    shown = {one.topic: one.moves for one in transitions.preview(site.coordinator, SMALL)}
    reasons = [line.text for topic in SMALL for line in transitions.explain(site.coordinator, topic).moves]
    reports = {one.topic: one for one in transitions.plan(site.coordinator, SMALL, LOOP)}
    assert {topic: one.moves for topic, one in reports.items()} == shown
    assert sum(len(one.moves) for one in reports.values()) == 4 == sum(len(one.moves) for one in told.values())
    assert set(reasons) == {
        f"{giver} had 6 of all topics and keeps 4, c had 0 and gets 4; the even share is 4" for giver in "ab"
    }
    said = [one.explanation.summary for one in reports.values() if one.explanation is not None]
    assert set(said) == {"balanced: 1 of 1 partitions leave an owner; then 4 of all topics each"}


def test_a_topic_that_nothing_has_happened_to_says_why_it_moves() -> None:
    site = stable_site("a", "b", partitions=2, names=("one", "two"))
    change_config(site.coordinator, "one", lambda old: replace(old, pins=dict.fromkeys(range(2), "a")))
    site.settles()
    assert (site.counts("two"), totals(site)) == ({"b": 2}, {"a": 2, "b": 2})
    evened = [one for one in site.history("two") if "not even over all topics: balanced: 1 of 2" in one.cause]
    assert evened
    assert not any(one.unasked for one in evened), "somebody asked for the pins, so topic two does not flap"


@pytest.mark.parametrize("measure", ["partitions", "records"])
def test_weighted_topics_see_what_the_same_step_gives_in_the_others(measure: str) -> None:
    site = Site()
    for topic in SMALL:
        site.add_topic(topic, 1)
        change_config(
            site.coordinator, topic, lambda old: replace(old, strategy="weighted", parameters={"measure": measure})
        )
    site.starts("a")
    site.settles()
    site.starts("b", "c")
    site.settles()
    assert totals(site) == {"a": 4, "b": 4, "c": 4}
    assert not [line for topic in SMALL for line in transitions.explain(site.coordinator, topic).moves]
    assert {site.state(topic).state for topic in SMALL} == {State.STABLE}
