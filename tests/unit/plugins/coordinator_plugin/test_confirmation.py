"""How a wait for confirmations ends."""

from coordinator_plugin.confirmation import Patience, WaitKind, confirmations

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.service.plan import overrides, transitions
from coordinator_tasks.service.plan.transitions import WaitReport
from tests.fakes.cluster import PERSON, Cluster
from tests.world.site import stable_site


def waiting(kind: TopicOutcome, confirmed: tuple[str, ...] = (), pending: tuple[str, ...] = ()) -> WaitReport:
    return WaitReport(kind, dict.fromkeys(pending, "waits"), dict.fromkeys(pending, ("a",)), confirmed, pending)


def test_a_wait_ends_as_soon_as_all_is_confirmed_or_a_new_plan_is_due() -> None:
    assert Patience(0.0, 60.0).judge(waiting(TopicOutcome.WRITTEN), False, 0.1) is not None
    ended = Patience(0.0, 60.0).judge(waiting(TopicOutcome.OVERTAKEN, pending=("x",)), False, 0.1)
    assert ended.outcome is TopicOutcome.OVERTAKEN


def test_a_stuck_topic_holds_up_no_other() -> None:
    patience = Patience(0.0, 60.0, patience_s=2.0)
    report = waiting(TopicOutcome.WAITING, confirmed=("y",), pending=("x",))
    assert patience.judge(report, False, 1.0) is None
    assert patience.judge(report, False, 2.9) is None
    ended = patience.judge(report, False, 3.1)
    assert ended.outcome is TopicOutcome.WRITTEN


def test_a_wait_with_nothing_confirmed_ends_blocked_at_its_limit() -> None:
    patience = Patience(0.0, 5.0, patience_s=2.0)
    assert patience.judge(waiting(TopicOutcome.STUCK, pending=("x",)), False, 4.0) is None
    ended = patience.judge(waiting(TopicOutcome.STUCK, pending=("x",)), False, 5.0)
    assert ended.plain() == {"outcome": "stuck", "topics": {"x": "waits"}, "blockers": {"x": ["a"]}, "waited_s": 5.0}


def test_one_look_tells_of_topics_that_wait_for_something_else(shop: Cluster) -> None:
    assert not confirmations(shop.coordinator, WaitKind.CLOSED, []).report.pending
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    seen = confirmations(shop.coordinator, WaitKind.STARTED, ["orders"])
    assert (seen.report.pending, seen.others_ready) == (("orders",), False)


def test_a_wait_sees_that_something_is_due_in_a_topic_that_is_stable() -> None:
    site = stable_site("a", "b")
    site.add_topic("payments")
    transitions.plan(site.coordinator, ["payments"], PERSON)
    seen = confirmations(site.coordinator, WaitKind.STARTED, [])
    assert (seen.report.pending, seen.others_ready) == (("payments",), False)
    overrides.set_pins(site.coordinator, "orders", "a", [0, 1, 2, 3], actor=PERSON)
    assert confirmations(site.coordinator, WaitKind.STARTED, []).others_ready, "or it would wait for payments"
    assert not confirmations(site.coordinator, WaitKind.STARTED, ["payments"]).others_ready
