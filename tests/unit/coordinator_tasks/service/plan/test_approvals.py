"""Plans that exceed the budget wait for a person, for exactly that plan; repair never waits."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import ApprovalVoid, NotEntitled, NotManaged
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import Ending, MoveKind
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import action_log, directives, topics
from coordinator_tasks.service.plan import overrides, plans_to_approve, transitions
from coordinator_tasks.service.watch import overview
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site

ONE_MOVE = Budget(moves=1)


def site_with(budget: Budget, *consumers: str, partitions: int = 6) -> Site:
    site = stable_site(*consumers, partitions=partitions)
    site.coordinator = replace(site.coordinator, budget=budget)
    return site


def waiting_site(budget: Budget = ONE_MOVE, partitions: int = 6) -> Site:
    """a and b share the partitions, c has joined, and the plan for it waits for approval."""
    site = site_with(budget, "a", "b", partitions=partitions)
    site.starts("c")
    site.step(5)
    return site


def approve(site: Site, digest: str, *, granted: bool = True, by: str = "ada") -> None:
    plans_to_approve.answer(site.coordinator, "orders", digest, granted=granted, by=[by], why="calm")


def waits(site: Site) -> plans_to_approve.WaitingPlan:
    return plans_to_approve.waiting(site.coordinator, ["orders"])["orders"]


def test_a_plan_above_the_budget_waits_and_is_done_once_it_is_approved() -> None:
    site = site_with(Budget(moves=1), "a", "b")
    site.starts("c")
    epoch, writes = site.node().epoch, site.server.zxid
    report = site.step(5)
    assert (report.outcome, site.node().epoch) == (TopicOutcome.WAITING, epoch)
    digest = waits(site).digest
    assert report.reason == (
        f"joined: c; 2 partitions would move, and the budget is 1: it waits for approval; `approve orders {digest}` gives it"
    )
    assert transitions.due(site.coordinator) == {}, "no run is started again and again"
    assert transitions.ready(site.coordinator, ["orders"]) == ()
    (shown,) = transitions.preview(site.coordinator, ["orders"])
    assert (shown.outcome, len(shown.moves), shown.approval) == (TopicOutcome.WRITTEN, 2, digest)
    (topic,) = overview.topics(site.coordinator)
    assert topic.reason == report.reason
    assert site.step(5).outcome is TopicOutcome.WAITING
    assert site.server.zxid == writes + 1, "only a first answer is noted"
    approve(site, digest)
    site.settles()
    assert site.counts() == {"a": 2, "b": 2, "c": 2}
    assert plans_to_approve.waiting(site.coordinator, ["orders"]) == {}


@pytest.mark.parametrize("rejected", [False, True])
def test_a_pause_does_not_wait_for_the_answer_to_a_plan(rejected: bool) -> None:
    site = waiting_site()
    if rejected:
        approve(site, waits(site).digest, granted=False)
    topics.change_config(site.coordinator, "orders", lambda config: replace(config, paused=frozenset({3})))
    report = site.step(5)
    assert (report.outcome, report.reason, report.moves) == (TopicOutcome.WRITTEN, "paused: partition 3", ())
    assert (site.node().paused, site.counts()) == ({3}, {"a": 3, "b": 3})
    assert not waits(site).answered, "it is asked again"


def test_an_approval_is_void_when_something_has_changed_since() -> None:
    site = waiting_site(partitions=8)
    former = waits(site).digest
    site.starts("d")
    site.step(5)
    now = waits(site).digest
    assert now != former
    before = site.server.zxid
    with pytest.raises(ApprovalVoid, match=f"is not the one that waits now, which is {now}: something has changed"):
        approve(site, former)
    assert site.server.zxid == before
    approve(site, now)
    site.dies("d")
    assert site.step(5).outcome is TopicOutcome.WAITING, "what was approved was another plan"
    assert waits(site).digest != now
    with pytest.raises(ApprovalVoid, match="is not the one that waits now"):
        approve(site, now)


@pytest.mark.parametrize("change", ["pin", "strategy", "epoch"])
def test_each_input_of_the_plan_makes_its_approval_void(change: str) -> None:
    site = waiting_site(partitions=8)
    approve(site, waits(site).digest)
    if change == "pin":
        overrides.set_pins(site.coordinator, "orders", "a", [min(site.owned("a"))], actor=PERSON)
    elif change == "strategy":
        topics.set_strategy(site.coordinator, "orders", "roundrobin", {}, PERSON)
    else:
        site.kafka.add_partitions("orders", 1)
        topics.refresh_partitions(site.coordinator, ["orders"])
        site.step(5)  # nobody had the new one
    site.everybody_acts()
    site.step(5)
    assert site.step(5).outcome is TopicOutcome.WAITING
    assert "c" not in site.counts() or change == "epoch"


def test_partitions_that_nobody_runs_are_assigned_meanwhile() -> None:
    site = site_with(Budget(moves=1), "a", "b", "d", partitions=9)
    site.starts("c")
    site.step(5)
    digest = waits(site).digest
    site.dies("b", Ending.REAPED)
    assert {move.kind for move in site.step(5).moves} == {MoveKind.START}
    site.everybody_acts()
    site.step(5)
    assert set(site.counts()) >= {"a", "d"}
    assert sum(site.counts().values()) == 9
    if plans_to_approve.waiting(site.coordinator, ["orders"]):
        assert waits(site).digest != digest


def test_moves_of_an_ending_process_need_no_approval_and_moves_of_a_drain_wait() -> None:
    site = site_with(Budget(moves=1), "a", "b", "c")
    directives.drain(site.coordinator, "c", "ada", "")
    assert site.step(5).outcome is TopicOutcome.WAITING
    process = site.processes["c"]
    directives._change(
        site.coordinator,
        "c",
        lambda old: (
            replace(old, draining=replace(old.draining, leaving=process.member.incarnation)) if old.draining else old
        ),
    )
    site.settles()
    assert site.counts() == {"a": 3, "b": 3}


def test_a_rejection_stays_until_something_changes() -> None:
    site = waiting_site(partitions=8)
    digest = waits(site).digest
    approve(site, digest, granted=False)
    assert waits(site).answered
    assert not plans_to_approve.still_waits(site.coordinator, "orders", digest)
    assert "ada has rejected it: calm; it waits until something changes" in site.step(5).reason
    site.starts("d")
    site.step(5)
    assert not waits(site).answered
    assert plans_to_approve.still_waits(site.coordinator, "orders", waits(site).digest)


@pytest.mark.parametrize(
    ("reject", "says"),
    [(False, "approved; the next plan does it"), (True, "rejected; it waits until something changes")],
)
def test_the_same_answer_again_changes_nothing_and_who_answered_is_in_the_history(reject: bool, says: str) -> None:
    site = waiting_site()
    given = {"topic": "orders", "digest": waits(site).digest, "reject": reject, "why": "calm"}
    done = ACTIONS["approve"].run(site.coordinator, given, PERSON, dry_run=False)
    assert done.text == f"the plan {given['digest']} of topic orders is {says}"
    before = site.server.zxid
    ACTIONS["approve"].run(site.coordinator, given, PERSON, dry_run=False)
    assert site.server.zxid == before
    (record,) = action_log.asked(site.coordinator, "orders", 1)
    assert (record.action, record.actor.who, record.why) == ("reject" if reject else "approve", PERSON.who, "calm")
    if not reject:
        site.settles()
        with pytest.raises(ApprovalVoid, match="no plan of topic 'orders' waits for approval"):
            approve(site, "0123")


def test_an_approval_where_no_budget_is_set_says_that_and_not_that_the_plan_is_done() -> None:
    site = waiting_site()
    digest = waits(site).digest
    site.coordinator = replace(site.coordinator, budget=Budget())
    with pytest.raises(ApprovalVoid, match="no budget is set here, so no plan of topic 'orders' waits"):
        approve(site, digest)


def test_only_the_sites_approvers_approve() -> None:
    site = waiting_site(Budget(moves=1, approvers=("kim", "lee")))
    before, digest = site.server.zxid, waits(site).digest
    with pytest.raises(NotEntitled, match=r"ada may not approve plans of cluster 'shop'; ask one of kim, lee, or add"):
        approve(site, digest)
    assert site.server.zxid == before
    with pytest.raises(NotManaged):
        plans_to_approve.answer(site.coordinator, "nothing", digest, granted=True, by=["kim"], why="")
    approve(site, digest, by="lee")
    site.settles()
    assert site.counts() == {"a": 2, "b": 2, "c": 2}


def test_a_predicted_pause_is_judged_from_the_history() -> None:
    site = site_with(Budget(pause_s=1.0), "a", "b")
    site.starts("c")
    report = site.step(5)
    assert "a pause cannot be predicted yet, and the budget is" in report.reason
