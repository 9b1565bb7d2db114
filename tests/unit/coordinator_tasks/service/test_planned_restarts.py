"""Planned restarts: partitions wait for the next process, or move away and return; what has run out has never been."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks import show
from coordinator_tasks.core.codecs.member_codec import encode_directive
from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import (
    Directive,
    Draining,
    Ending,
    Isolation,
    LastPass,
    Silence,
    State,
    Taken,
    TopicConfig,
    Unreachable,
)
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.core.text.partition_text import named
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import directives, history, topics
from coordinator_tasks.service.plan import approvals, pauses, transitions
from coordinator_tasks.service.watch import overview
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site

WITHIN_S = 600.0


def expect(site: Site, consumer: str = "b", within_s: float = WITHIN_S, *, moves: bool = False) -> None:
    directives.expect_restart(site.coordinator, consumer, within_s, moves=moves, by="ada", why="new kernel")


@pytest.mark.parametrize("how", list(Ending))
def test_partitions_wait_for_the_restart_and_nobody_else_is_touched(how: Ending) -> None:
    site = stable_site("a", "b", "c", partitions=7)
    before, epoch = dict(site.node().assignments), site.node().epoch
    expect(site)
    site.dies("b", how)
    report = site.step()
    assert report.reason == (
        "b's incarnation 1 is away: its partitions wait for it, back within 10 min, asked by ada: new kernel"
    )
    site.clock.advance(WITHIN_S - 1)
    assert site.step().outcome is TopicOutcome.UNCHANGED
    assert site.node().epoch == epoch
    site.starts("b")
    site.settles()
    assert dict(site.node().assignments) == before
    assert site.node().incarnations["b"] == 2
    touched = {move.partition for record in site.history() if record.epoch > epoch for move in record.moves}
    assert touched == {p for p, owner in before.items() if owner == "b"}


def swap(site: Site) -> tuple[int, int]:
    """A person's pins have one partition go from `a` to `b` and one from `b` to `a`; neither is given away yet."""
    gets, gives = min(site.owned("a")), min(site.owned("b"))
    site.processes["a"].stubborn = site.processes["b"].stubborn = True
    pins = {gets: "b", gives: "a"}
    topics.change_config(site.coordinator, "orders", lambda config: replace(config, pins=pins))
    site.step()
    assert site.state().state is State.CLOSING
    return gets, gives


@pytest.mark.parametrize("closes", ["before", "after"])
@pytest.mark.parametrize("lease", [True, False], ids=["planned restart", "rejoin_grace_s"])
def test_a_swap_with_one_that_is_known_to_be_over_goes_on_at_once(lease: bool, closes: str) -> None:
    site = stable_site("a", "b", partitions=6)
    site.with_policy(rejoin_grace_s=0.0 if lease else WITHIN_S)
    had = site.owned("b")
    gets, gives = swap(site)
    if lease:
        expect(site)
        site.processes["b"].silence = Silence.SILENT
    if lease and closes == "before":
        site.processes["a"].stubborn = False
        site.clock.advance(10)
        site.everybody_acts("orders")
        site.step()
    site.dies("b", Ending.LEFT)
    site.processes["a"].stubborn = False
    site.settles()
    assert site.state().state is State.STABLE
    assert site.owned("a") == set(range(6)) - had | {gets, gives}, "what is in between goes on without b"
    assert site.owned("b") == had - {gives}, "what b owns waits for it"
    site.starts("b")
    site.settles()
    assert site.owned("b") >= had - {gives} | {gets}


def test_a_start_that_waits_for_the_restart_leaves_the_topic_stable() -> None:
    site = stable_site("a", "b", partitions=4)
    expect(site)
    before = dict(site.node().assignments)
    site.dies("b")
    site.starts("b")
    site.step()
    assert site.state().state is State.STARTING
    expect(site)
    site.dies("b")
    site.settles()
    assert site.state().state is State.STABLE
    site.starts("b")
    site.settles()
    assert dict(site.node().assignments) == before


def test_a_crash_loop_moves_partitions_twice_and_then_others_keep_them_for_a_while() -> None:
    site = stable_site("a", "b")
    for _ in range(2):
        site.dies("b", reason="exit code 137: killed")
        site.settles()
        assert set(site.counts()) == {"a"}
        site.starts("b")
        site.settles()
    assert set(site.counts()) == {"a"}, "it has ended with an error twice in a row"
    site.clock.advance(site.coordinator.policy.flap_backoff_s)
    site.settles()
    assert set(site.counts()) == {"a", "b"}


def test_what_a_person_asks_of_a_consumer_ends_its_crash_loop() -> None:
    site = stable_site("a", "b")
    site.dies("b", reason="exit code 137: killed")
    site.starts("b")
    site.settles()
    site.dies("b", reason="exit code 137: killed")
    site.starts("b")
    expect(site)
    site.dies("b", reason="exit code 143: stopped")
    site.starts("b")
    site.settles()
    assert set(site.counts()) == {"a", "b"}


def test_a_silent_host_is_not_isolated_before_its_restart_is_due() -> None:
    site = stable_site("a", "b")
    expect(site)
    site.dies("b", None)
    site.statuses.answers["b"] = Unreachable(Silence.SILENT, "no answer")
    for _ in range(9):
        site.clock.advance(60)
        assert site.step().moves == ()
        assert site.isolation("b") is None
    site.clock.advance(70)
    site.step()
    assert site.isolation("b") is not None, "after that, its absence counts from its begin"
    site.settles()
    assert site.counts() == {"a": 4}


def test_a_consumer_without_a_restart_loses_its_partitions_after_the_time() -> None:
    site = stable_site("a", "b")
    expect(site)
    site.dies("b", Ending.LEFT)
    assert 0 < transitions.due(site.coordinator)["orders"].in_s <= WITHIN_S
    site.clock.advance(WITHIN_S)
    assert site.step().reason == "gone: b (left)"
    assert site.counts() == {"a": 4}


def test_partitions_move_away_and_exactly_they_return() -> None:
    site = stable_site("a", "b", "c", partitions=9)
    before = dict(site.node().assignments)
    expect(site, moves=True)
    site.settles()
    assert site.owned("b") == set()
    assert {p: c for p, c in site.node().assignments.items() if before[p] != "b"} == {
        p: c for p, c in before.items() if c != "b"
    }
    causes = [record.cause for record in site.history()]
    assert "draining: b (by ada: restart: new kernel)" in causes
    site.dies("b", Ending.LEFT)
    site.starts("b")
    site.settles()
    assert dict(site.node().assignments) == before
    (why,) = {text for r in site.history()[-4:] if r.plan for text in [one.text for one in r.plan.moves]}
    assert why == "b had it then: its restart was planned (back within 10 min, asked by ada: new kernel)"


def test_pins_go_before_it_and_other_topics_are_not_mixed_up() -> None:
    site = stable_site("a", "b", names=("orders", "bills"))
    expect(site, moves=True)
    site.settles()
    before = {topic: sum(1 for c in site.node(topic).assignments.values() if c == "b") for topic in ("orders", "bills")}
    assert before == {"orders": 0, "bills": 0}

    def pinned(config: TopicConfig) -> TopicConfig:
        return replace(config, pins=dict.fromkeys(range(4), "a"))

    topics.change_config(site.coordinator, "orders", pinned)
    site.dies("b")
    site.starts("b")
    site.settles()
    assert site.counts("orders") == {"a": 4}
    assert site.counts("bills") == {"b": 4}, "the pinned ones count"


def test_when_all_targets_restart_at_once_the_rest_of_the_plan_is_made_up_for() -> None:
    site = stable_site("a", "b")

    def pins(wanted: dict[int, str]) -> None:
        topics.change_config(site.coordinator, "orders", lambda config: replace(config, pins=wanted))
        site.settles()

    pins(dict.fromkeys(range(3), "b"))
    expect(site, "b")
    site.dies("b")
    pins({})
    assert site.counts() == {"a": 1, "b": 3}, "while b is away, it keeps what it had"
    expect(site, "a")
    site.dies("a")
    site.starts("a")
    site.starts("b")
    site.step()
    assert site.counts() == {"a": 1, "b": 3}
    site.settles()
    assert site.counts() == {"a": 2, "b": 2}


def test_the_history_tells_a_planned_restart_as_one_rebalance_with_its_wait() -> None:
    site = stable_site("a", "b", partitions=4)
    had, before = site.owned("b"), site.history()[-1]
    planned = next(one for one in site.history() if one.epoch == before.epoch)
    read_at = site.zk.get(site.paths.record("orders", planned.sequence)).stat.created_at
    expect(site)
    site.clock.advance(20)
    site.dies("b", Ending.LEFT)
    site.clock.advance(9)
    site.starts("b")
    site.settles()
    taken = Taken(5, 0.5, 0.01, last_pass=LastPass(before.epoch, 20.0, 0.1))
    site.tells("b", lambda one: replace(one, running={p: replace(r, taken=taken) for p, r in one.running.items()}))
    site.clock.advance(1)
    assert pauses.complete(site.coordinator, ["orders"]) == ()
    (found,) = [one for one in history.rebalances(site.coordinator, ["orders"]) if one.began_at > before.at]
    assert found.cause == "gone: b (left, restart planned by ada: new kernel)"
    assert {(move.giver, move.taker) for move in found.moves} == {("b", "b")}
    assert {one.partition for one in found.pauses.measured} == had
    for one in found.pauses.measured:
        assert one.first_at is not None
        assert one.first_at - read_at - 20 >= 9
        assert one.most_s == pytest.approx(one.first_at - read_at - 20, abs=0.01)
    assert "longest total between " in show.history([found])
    assert approvals.earlier_moves(site.coordinator, "orders") == (), "the pause of a restart predicts no move"


@pytest.mark.parametrize(
    "former",
    [
        Directive("b", draining=Draining("b", "asked to end", 5.0, incarnation=1)),
        Directive("b", isolation=Isolation("platform", "absent and silent for 30 s", 5.0, incarnation=1, readmit=True)),
    ],
    ids=["asked to end", "isolated"],
)
def test_what_was_asked_of_a_former_process_refuses_no_restart_of_the_present_one(former: Directive) -> None:
    site = stable_site("a", "b")
    path = site.paths.directive("b")
    site.dies("b")
    site.zk.transact([put(path, encode_directive(former), -1)])
    site.settles()
    site.starts("b")
    site.settles()
    before = dict(site.node().assignments)
    assert set(before.values()) == {"a", "b"}
    expect(site)
    site.dies("b")
    site.clock.advance(60)
    site.settles()
    assert site.node().assignments == before
    assert site.node().incarnations["b"] == 2


def test_what_cannot_be_is_refused_and_nothing_changes() -> None:
    site = stable_site("a", "b")
    with pytest.raises(NotManaged, match="has never seen a consumer 'x'"):
        expect(site, "x")
    for within_s in (-1.0, 86_401.0, float("nan"), float("inf")):
        with pytest.raises(Refused, match="a restart takes 0 to 1440 min"):
            expect(site, within_s=within_s)
    directives.drain(site.coordinator, "a", "ada", "")
    directives.isolate(site.coordinator, "b", by="ada", why="")
    before = site.server.zxid
    with pytest.raises(Refused, match="a is draining, so it keeps nothing for a restart; undrain it first"):
        expect(site, "a")
    with pytest.raises(Refused, match="b is isolated, so it keeps nothing for a restart; readmit it first"):
        expect(site, "b")
    site.dies("b")
    zxid = site.server.zxid
    with pytest.raises(Refused, match="b is not registered"):
        expect(site, "b")
    assert site.server.zxid == zxid > before


def test_form_and_command_say_what_waits_and_who_asked_stands_in_the_history() -> None:
    site = stable_site("a", "b")
    given: dict[str, Any] = {"consumer": "b", "within": 10, "move": False, "why": "new kernel"}
    before = site.server.zxid
    lines = ACTIONS["expect_restart"].lines(site.coordinator, given, PERSON, dry_run=True)
    assert site.server.zxid == before
    had = site.owned("b")
    assert lines == [
        "b would be expected to restart within 10 min",
        f"b: {named(had)} of orders would wait for it",
    ]
    assert ACTIONS["expect_restart"].lines(site.coordinator, given, PERSON, dry_run=False) == [
        "b is expected to restart within 10 min",
        f"b: {named(had)} of orders will wait for it",
    ]
    (shown,) = [one for one in overview.consumers(site.coordinator) if one.consumer == "b"]
    assert shown.asked == f"back within 10 min, asked by {PERSON.who}: new kernel"
    (ended,) = ACTIONS["expect_restart"].lines(site.coordinator, {**given, "within": 0}, PERSON, dry_run=False)
    assert ended == "b is not expected to restart any more"
