"""Freezing a topic and pinning partitions: moves, staying partitions, reports."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.model import State
from coordinator_tasks.service.nodes import directives, history
from coordinator_tasks.service.nodes.topics import change_config, configuration
from coordinator_tasks.service.plan import overrides, transitions
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site


@pytest.fixture
def shop() -> Site:
    return stable_site("a")


def test_pinned_partitions_move_to_their_consumer_and_come_back_with_it(shop: Site) -> None:
    shop.starts("b")
    found = overrides.set_pins(shop.coordinator, "orders", "a", [0, 1, 2], actor=PERSON)
    assert [one.text for one in found][:1] == ["partition 0 would be pinned to a and would stay there"]
    shop.settles()
    assert shop.node().assignments == {0: "a", 1: "a", 2: "a", 3: "b"}
    (moved,) = overrides.set_pins(shop.coordinator, "orders", "b", [2], actor=PERSON)
    assert moved.text == "partition 2 would be pinned to b and would move there from a, was pinned to a"
    shop.settles()
    assert shop.node().assignments[2] == "b"
    assert history.records(shop.coordinator, "orders")[0].cause == "pinned to b: partition 2"
    assert overrides.told(configuration(shop.coordinator, "orders")) == (
        "pinned to a: partitions 0-1",
        "pinned to b: partition 2",
    )


def test_a_pin_to_a_draining_owner_reports_that_the_partition_leaves(shop: Site) -> None:
    shop.starts("b")
    shop.settles()
    mine = min(shop.owned("a"))
    directives.drain(shop.coordinator, "a", by="ada", why="")
    (pinned,) = overrides.set_pins(shop.coordinator, "orders", "a", [mine], actor=PERSON)
    assert pinned.text == f"partition {mine} would be pinned to a and would move away until a may have it"
    shop.settles()
    assert shop.counts() == {"b": 4}
    directives.undrain(shop.coordinator, "a")
    shop.settles()
    assert shop.node().assignments[mine] == "a"


def reads_another_topic(site: Site) -> None:
    process = site.processes["b"]
    site.register(replace(process.member, topics=("payments",)), process.zk)


@pytest.mark.parametrize(
    "happens",
    [
        lambda site: directives.drain(site.coordinator, "b", by="kim", why="old disk"),
        lambda site: directives.isolate(site.coordinator, "b", by="kim", why="old disk"),
        reads_another_topic,
    ],
    ids=["drained", "isolated", "reads another topic"],
)
def test_a_pin_to_a_forbidden_owner_reports_that_the_partition_stays(
    shop: Site, happens: Callable[[Site], object]
) -> None:
    shop.starts("b")
    happens(shop)
    shop.settles()
    (pinned,) = overrides.set_pins(shop.coordinator, "orders", "b", [0], actor=PERSON)
    assert pinned.text == "partition 0 would be pinned to b and would stay with a until b may have it"
    shop.settles()
    assert shop.counts() == {"a": 4}


@pytest.mark.parametrize("when", [State.CLOSING, State.STABLE])
def test_what_is_paused_is_paused_also_after_a_plan_in_parts(when: State) -> None:
    site = stable_site("a", "b", partitions=6)
    for consumer in ("c", "d"):
        site.starts(consumer)
        site.clock.advance(5)
        transitions.step(site.coordinator, ["orders"], PERSON)
    assert (site.state().state, site.state().planned) == (State.CLOSING, "")
    if when is State.STABLE:
        overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)
        site.settles()
    change_config(site.coordinator, "orders", lambda config: replace(config, paused=frozenset({3})))
    transitions.step(site.coordinator, ["orders"], PERSON)
    assert site.node().paused == {3}


def test_pins_are_taken_away_one_by_one_or_all_of_them(shop: Site) -> None:
    overrides.set_pins(shop.coordinator, "orders", "a", [0, 1, 3], actor=PERSON)
    assert [one.partition for one in overrides.would_pin(shop.coordinator, "orders", "", [])] == [0, 1, 3]
    overrides.set_pins(shop.coordinator, "orders", "", [1], actor=PERSON)
    assert configuration(shop.coordinator, "orders").pins == {0: "a", 3: "a"}
    with pytest.raises(Refused, match="partitions 1-2 of topic 'orders' have no pin"):
        overrides.set_pins(shop.coordinator, "orders", "", [1, 2], actor=PERSON)
    overrides.set_pins(shop.coordinator, "orders", "", [], actor=PERSON)
    assert configuration(shop.coordinator, "orders").pins == {}


def test_a_pin_needs_partitions_that_are_there_and_a_consumer_that_was_seen(shop: Site) -> None:
    with pytest.raises(Refused, match="has partitions 0 to 3"):
        overrides.set_pins(shop.coordinator, "orders", "a", [4], actor=PERSON)
    with pytest.raises(Refused, match="say which ones belong to a"):
        overrides.set_pins(shop.coordinator, "orders", "a", [], actor=PERSON)
    with pytest.raises(NotManaged, match="never seen a consumer 'z'"):
        overrides.set_pins(shop.coordinator, "orders", "z", [1], actor=PERSON)
    with pytest.raises(NotManaged, match="'nothing' is not managed"):
        overrides.set_frozen(shop.coordinator, "nothing", frozen=True, actor=PERSON)
