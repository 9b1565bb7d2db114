"""The way back: returned partitions, exceptions, duration, refusals."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import Fleet, State
from coordinator_tasks.service.actions.action import will
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import directives, fleet, history, topics
from coordinator_tasks.service.nodes.topics import configuration
from coordinator_tasks.service.plan import overrides, rollback, transitions
from tests.fakes.cluster import PERSON
from tests.world.site import LOOP, Site, stable_site


def newest(site: Site, topic: str = "orders") -> str:
    """The name of the topic's newest rebalance."""
    return history.rebalances(site.coordinator, [topic], 1)[0].rebalance


def go_back(site: Site, rebalance: str, minutes: float = 0.0) -> rollback.Way:
    return rollback.roll_back(
        site.coordinator, "orders", rebalance, for_s=60 * minutes, why="slow since then", actor=PERSON
    )


@pytest.fixture
def joined() -> Site:
    """`b` has joined `a`, the owner of all four partitions."""
    site = stable_site("a")
    site.starts("b")
    site.settles()
    assert site.counts() == {"a": 2, "b": 2}
    return site


def test_the_assignment_before_a_rebalance_comes_back_and_the_history_says_who_asked_and_why(joined: Site) -> None:
    rebalance = newest(joined)
    taken = joined.owned("b")
    way = go_back(joined, rebalance)
    assert {one.partition for one in way.preview.moves} == taken
    assert configuration(joined.coordinator, "orders").rollback == way.wanted
    joined.settles()
    assert joined.counts() == {"a": 4}
    found = history.rebalances(joined.coordinator, ["orders"], 1)[0]
    said = f"rolled back to before rebalance {rebalance} (by ada: slow since then)"
    assert found.cause == said
    assert {(one.giver, one.taker) for one in found.moves} == {("b", "a")}
    plans = [one.plan for one in found.records if one.plan is not None]
    assert [one.text for one in plans[0].moves] == [f"a had it then: {said}"]
    assert joined.state().state is State.STABLE


@pytest.mark.parametrize(
    ("minutes", "holds"), [(0, []), (5, ["orders:   it would hold for 5 min, whoever joins or leaves"])]
)
def test_a_roll_back_without_moves_is_said_to_hold_for_a_time(joined: Site, minutes: int, holds: list[str]) -> None:
    given = {"topic": "orders", "rebalance": newest(joined), "why": "slow", "minutes": minutes}
    directives.drain(joined.coordinator, "b", by="ada", why="new host")
    joined.settles()
    shown = ["orders: no partition would move; then a 4", *holds]
    assert list(ACTIONS["roll_back"].would(joined.coordinator, given, PERSON).lines) == shown
    assert ACTIONS["roll_back"].run(joined.coordinator, given, PERSON, dry_run=False).lines[:-1] == will(shown)
    assert (configuration(joined.coordinator, "orders").rollback is not None) == bool(holds)


def test_a_preview_of_a_roll_back_shows_what_it_does_and_writes_nothing(joined: Site) -> None:
    zxid = joined.server.zxid
    shown = rollback.preview(joined.coordinator, "orders", newest(joined))
    assert joined.server.zxid == zxid
    done = go_back(joined, newest(joined))
    assert [(one.partition, one.giver, one.taker) for one in shown.preview.moves] == [
        (one.partition, one.giver, one.taker) for one in done.preview.moves
    ]
    joined.settles()
    assert joined.counts() == shown.preview.counts == {"a": 4}
    needs = "a pause is predicted from measured moves of the same kind; the history of this topic has none"
    assert shown.lines == (
        "orders: 2 partitions would move; then a 4",
        "orders:   partition 2 from b to a by hand-off: unknown backlog, pause unknown",
        "orders:   partition 3 from b to a by hand-off: unknown backlog, pause unknown",
        f"orders:   {needs}",
        f"orders:   why partitions 2-3: a had it then: rolled back to before rebalance {shown.wanted.rebalance}",
        "orders:   it would hold until the next change of membership",
    )


def test_a_roll_back_that_exceeds_the_budget_is_said_to_wait_for_approval(joined: Site) -> None:
    joined.coordinator = replace(joined.coordinator, budget=Budget(moves=1))
    given = {"topic": "orders", "rebalance": newest(joined), "why": "slow since then"}
    done = ACTIONS["roll_back"].run(joined.coordinator, given, PERSON, dry_run=False)
    waits = "it exceeds the budget, so it waits for approval: 2 partitions will move, and the budget is 1"
    assert f"orders:   {waits}" in done.lines
    assert done.lines[-1] == "orders: the next plan moves them, once it is approved"


def test_a_roll_back_says_that_a_growth_which_acts_may_move_partitions_again(joined: Site) -> None:
    fleet.set_fleet(joined.coordinator, Fleet("billing", "app.py", ("a", "b")))
    fleet.set_fleet(joined.coordinator, Fleet("other", "app.py", ("x",)))
    rebalance = newest(joined)
    for app, act in (("billing", False), ("other", True)):
        autoscale.set_growth(joined.coordinator, app, Limits(act=act))
    assert (
        rollback.preview(joined.coordinator, "orders", rebalance).lines[-1].startswith("orders:   it would hold until")
    )
    autoscale.set_growth(joined.coordinator, "billing", Limits(act=True))
    said = (
        "orders:   the growth of billing acts: its moves come before this roll back, and a change of its size may end it; to keep "
        "it, `set-growth billing` without --act first"
    )
    assert rollback.preview(joined.coordinator, "orders", rebalance).lines[-1] == said
    assert go_back(joined, rebalance).lines[-1] == said
    joined.settles()
    assert joined.counts() == {"a": 4}
    overrides.set_pins(joined.coordinator, "orders", "b", [0], actor=PERSON)  # as a growth moves
    joined.settles()
    assert joined.counts() == {"a": 3, "b": 1}


def test_the_same_roll_back_again_changes_nothing_before_and_after_its_plan(joined: Site) -> None:
    rebalance = newest(joined)
    first = go_back(joined, rebalance)
    version = joined.zk.get(joined.paths.config("orders")).stat.version
    joined.clock.advance(5)
    again = go_back(joined, rebalance)
    assert (first.standing, again.standing) == (False, True)
    joined.settles()
    last = go_back(joined, rebalance)
    assert last.standing
    assert last.preview.moves == ()
    assert joined.zk.get(joined.paths.config("orders")).stat.version == version


def test_consumers_that_are_gone_are_left_out_and_named(joined: Site) -> None:
    joined.starts("c")
    joined.settles()
    with_c = joined.node().assignments
    joined.dies("c")
    joined.settles()
    rebalance = newest(joined)
    before = joined.node().assignments
    way = rollback.preview(joined.coordinator, "orders", rebalance)
    gone = tuple(p for p, who in with_c.items() if who == "c")
    assert way.gone == {"c": gone}
    (said,) = way.left_out
    assert said.startswith("c is gone or may not have them: partition")
    go_back(joined, rebalance)
    joined.settles()
    assert {p: joined.node().assignments[p] for p in gone} == {p: before[p] for p in gone}


def test_a_partition_that_is_newer_stays_and_is_named(joined: Site) -> None:
    rebalance = newest(joined)
    joined.kafka.add_partitions("orders", 2)
    topics.refresh_partitions(joined.coordinator)
    joined.settles()
    before = joined.node().assignments
    way = go_back(joined, rebalance)
    assert way.newer == (4, 5)
    assert way.left_out == ("nobody had partitions 4-5 then: they would stay",)
    joined.settles()
    now = joined.node().assignments
    assert {now[p] for p in range(4)} == {"a"}
    assert (now[4], now[5]) == (before[4], before[5])


def test_a_pin_comes_before_a_roll_back_and_is_named(joined: Site) -> None:
    rebalance = newest(joined)
    mine = min(joined.owned("b"))
    overrides.set_pins(joined.coordinator, "orders", "b", [mine], actor=PERSON)
    way = go_back(joined, rebalance)
    assert way.left_out == (f"partition {mine} is pinned to others, and would stay",)
    joined.settles()
    assert joined.counts() == {"a": 3, "b": 1}


@pytest.mark.parametrize("event", ["joins", "dies", "drains"])
def test_it_holds_until_the_next_change_of_membership_and_never_returns(joined: Site, event: str) -> None:
    go_back(joined, newest(joined))
    joined.settles()
    overrides.set_frozen(joined.coordinator, "orders", frozen=True, actor=PERSON)
    joined.settles()
    overrides.set_frozen(joined.coordinator, "orders", frozen=False, actor=PERSON)
    joined.settles()
    assert joined.counts() == {"a": 4}, "it would hold whatever else is planned"
    if event == "joins":
        joined.starts("c")
    elif event == "dies":
        joined.dies("b")
    else:
        directives.drain(joined.coordinator, "a", by="ada", why="")
    joined.settles()
    assert configuration(joined.coordinator, "orders").rollback is None
    assert any(
        "the roll back to before rebalance" in one.cause and "has ended with the change of membership" in one.cause
        for one in joined.history()
    )
    if event == "joins":
        joined.dies("c")
        joined.settles()
        assert joined.counts() == {"a": 2, "b": 2}, "the membership of then is back, and the roll back is not"


def test_for_a_time_it_survives_who_joins_and_ends_by_itself(joined: Site) -> None:
    go_back(joined, newest(joined), minutes=30)
    joined.settles()
    joined.starts("c")
    joined.settles()
    assert joined.counts() == {"a": 4}
    joined.dies("a")
    joined.settles()
    assert joined.counts() == {"b": 2, "c": 2}, "nobody is without an owner meanwhile"
    joined.starts("a")
    joined.settles()
    assert joined.counts() == {"a": 4}, "they return with their consumer"
    joined.clock.advance(1_800)
    joined.settles()
    assert set(joined.counts()) == {"a", "b", "c"}
    assert configuration(joined.coordinator, "orders").rollback is None
    assert any("has ended after 30 min" in one.cause for one in joined.history())


def test_removing_all_pins_ends_a_roll_back(joined: Site) -> None:
    rebalance = newest(joined)
    go_back(joined, rebalance)
    joined.settles()
    assert overrides.told(configuration(joined.coordinator, "orders")) == (
        f"rolled back to before rebalance {rebalance} (by ada: slow since then), until the next change of membership",
    )
    said = overrides.would_end(joined.coordinator, "orders", "", [])
    assert said == f"the roll back to before rebalance {rebalance} would end"
    overrides.set_pins(joined.coordinator, "orders", "", [], actor=PERSON)
    joined.settles()
    assert joined.counts() == {"a": 2, "b": 2}


def of_another_topic(site: Site) -> str:
    site.add_topic("payments")
    site.settles()
    return newest(site, "payments")


def pruned(site: Site) -> str:
    rebalance = newest(site)
    site.starts("c")
    site.settles()
    records = site.history()
    history.prune(site.coordinator, "orders", len([one for one in records if one.rebalance == records[-1].rebalance]))
    return rebalance


def half_pruned(site: Site) -> str:
    history.prune(site.coordinator, "orders", 1)
    return newest(site)


def the_first(site: Site) -> str:
    return history.rebalances(site.coordinator, ["orders"])[-1].rebalance


def frozen(site: Site) -> str:
    overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)
    return newest(site)


def removed(site: Site) -> str:
    topics.remove_topic(site.coordinator, "orders", PERSON)
    return newest(site)


def everybody_gone(site: Site) -> str:
    site.starts("c")
    site.settles()
    site.dies("a")
    site.settles()
    site.dies("b")
    site.settles()
    return history.rebalances(site.coordinator, ["orders"])[-2].rebalance


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            lambda _: "9-00000000",
            "the history of topic 'orders' has no rebalance '9-00000000'; `history orders` lists those there are",
        ),
        (of_another_topic, "is one of topic 'payments', not of 'orders'; name that topic, or another rebalance"),
        (pruned, "is pruned; `history orders` lists those there are"),
        (half_pruned, "of topic 'orders' are pruned; choose a later rebalance"),
        (the_first, "nobody owned a partition of topic 'orders' before rebalance"),
        (frozen, "topic 'orders' is frozen, so no roll back would move anything; unfreeze it first"),
        (removed, "topic 'orders' is being removed"),
        (everybody_gone, "may have partitions now; start one of them, or choose a later rebalance"),
        (lambda _: "x" * 101, "is no rebalance; `history orders` lists those there are"),
    ],
    ids=["unknown", "of another topic", "pruned", "half pruned", "the first", "frozen", "removed", "gone", "too long"],
)
def test_what_cannot_be_undone_is_refused_and_unchanged(joined: Site, of: Callable[[Site], str], said: str) -> None:
    rebalance = of(joined)
    before = joined.zk.get(joined.paths.config("orders"))
    with pytest.raises(Refused) as refused:
        go_back(joined, rebalance)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert joined.zk.get(joined.paths.config("orders")) == before


def test_an_assignment_that_does_not_fit_into_a_write_is_refused(joined: Site) -> None:
    rebalance = newest(joined)
    joined.coordinator = replace(joined.coordinator, policy=replace(joined.policy, max_write_bytes=100))
    with pytest.raises(Refused, match="more than the 100 that a write may have"):
        go_back(joined, rebalance)


@pytest.mark.parametrize("applied", [True, False])
def test_a_death_around_any_write_is_continued_by_the_next_run(joined: Site, applied: bool) -> None:
    """Of the wish, and of every write of the following plan."""
    rebalance = newest(joined)
    joined.zk.lose_next_write(applied=applied)
    with pytest.raises(StoreUnavailable):
        go_back(joined, rebalance)
    assert go_back(joined, rebalance).standing == applied
    deaths = 0
    for _ in range(20):
        joined.clock.advance(2)
        joined.everybody_acts()
        joined.zk.lose_next_write(applied=applied)
        try:
            transitions.step(joined.coordinator, ["orders"], LOOP)
        except StoreUnavailable:
            deaths += 1
            if not applied:
                transitions.step(joined.coordinator, ["orders"], LOOP)
    assert deaths == 3, "the plan, the start and the settling"
    assert joined.counts() == {"a": 4}
    assert joined.state().state is State.STABLE
