"""Which stuck topics a person is asked about, and how often."""

from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from coordinator_plugin import question
from coordinator_plugin.reconcile import reconcile, runs
from coordinator_plugin.stuck_topics import ASK_AGAIN_S, MAX_QUESTIONS, questions_of_audit, sentences

from coordinator_tasks.core.machine.audit import Finding, FindingKind
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.plan import plans_to_approve, transitions
from coordinator_tasks.service.watch.audit import Audit
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import DAGS, stable


def test_a_stuck_topic_is_asked_about_once_and_again_later(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    transitions.plan(c, ["orders"], PERSON)
    assert reconcile(c).questions == ()
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    (asked,) = reconcile(c).questions
    assert (asked.topic, asked.consumer) == ("orders", "a")
    shop.clock.sleep(60)
    (again,) = reconcile(c).questions
    assert again.run_id == asked.run_id
    shop.clock.sleep(ASK_AGAIN_S)
    (later,) = reconcile(c).questions
    assert later.run_id != asked.run_id


def test_unowned_partitions_are_notified_at_once_and_asked_about_later(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    directives.drain(c, "a", "ada", "new disk")
    stable(shop, "orders", {0: "a"})
    transitions.plan(c, ["orders"], PERSON)
    found = reconcile(c)
    assert any(line.startswith("orders: nobody reads partitions 1") for line in found.lines)
    assert found.questions == ()
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    (asked,) = reconcile(c).questions
    assert asked.plain()["conf"] == {"topic": "orders", "consumer": ""}
    (again,) = reconcile(c).questions
    assert again.run_id == asked.run_id

    ask = question.QuestionOperator(task_id="ask")
    ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))
    assert ask.subject.startswith("nobody reads partition")
    assert "no live consumer is there to take partitions 1" in str(ask.body)
    assert ask.options == [question.WAIT], "there is nobody to isolate"

    topics.remove_topic(c, "orders", PERSON)
    assert reconcile(c).questions == ()
    with pytest.raises(AirflowSkipException, match="nobody is asked"):
        ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))


def test_the_gravest_questions_are_asked_first_because_only_so_many_are(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    many = [f"t{number:02}" for number in range(MAX_QUESTIONS)]
    for topic in (*many, "bills"):
        shop.kafka.create_topic(topic, 2)
        topics.add_topic(c, topic, "h", actor=PERSON)
    transitions.plan(c, many, PERSON)
    stable(shop, "bills", {0: "a"})
    stable(shop, "orders", dict.fromkeys(range(4), "a"))
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    shop.kafka.members["g"] = ("tool at 10.0.0.7",)
    asked = reconcile(c).questions
    assert [(one.topic, one.consumer, one.audit) for one in asked[:3]] == [
        ("orders", "", True),
        ("bills", "", False),
        ("t00", "a", False),
    ]
    assert len(asked) == MAX_QUESTIONS


def test_plans_that_wait_for_approval_come_up_in_turn(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"t{number:02}" for number in range(MAX_QUESTIONS + 5)]
    plans = {topic: plans_to_approve.WaitingPlan(topic, "d" * 16, "4 of 4 partitions move") for topic in many}
    monkeypatch.setattr(plans_to_approve, "waiting", lambda *_: plans)
    asked: set[str] = set()
    for _ in range(2):
        asked |= {one["conf"]["topic"] for one in reconcile(shop.coordinator).approvals}
        shop.clock.sleep(ASK_AGAIN_S)
    assert asked == set(many)


def test_a_question_that_stands_is_not_asked_again(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    stable(shop, "orders", dict.fromkeys(range(4), "a"))
    shop.kafka.members["g"] = ("tool at 10.0.0.7",)
    shop.clock.sleep(ASK_AGAIN_S - c.clock.now() % ASK_AGAIN_S - 30)
    asked: list[tuple[str, str]] = []

    def wanted() -> list[tuple[str, str]]:
        found = runs(reconcile(c), DAGS, active_rebalances=2, under_way=lambda *run: run in asked)
        return [(one["trigger_dag_id"], one["trigger_run_id"]) for one in found]

    asked += wanted()
    assert [dag for dag, _ in asked] == ["stuck_topic"]
    shop.clock.sleep(60)
    assert wanted() == []
    shop.clock.sleep(ASK_AGAIN_S)
    assert len(wanted()) == 1


def test_two_owners_are_asked_about_before_a_stale_token(shop: Cluster) -> None:
    def finding(code: FindingKind, topic: str) -> Finding:
        return Finding(code, topic, (0,), "a", "says", "mend", alarm=True)

    found = Audit(
        (
            finding(FindingKind.STALE, "bills"),
            finding(FindingKind.TWO_OWNERS, "orders"),
            finding(FindingKind.INTRUDER, "orders"),
        )
    )
    asked = list(questions_of_audit(shop.coordinator, found))
    assert [one.topic for one in asked] == ["orders", "bills"]


def test_a_dispute_is_the_same_question_whichever_partitions_it_is_about_now(shop: Cluster) -> None:
    def asked(who: str, *partitions: int, topic: str = "orders") -> str:
        says = f"{who} has committed {partitions}"
        found = Audit((Finding(FindingKind.INTRUDER, topic, partitions, who, says, "mend", alarm=True),))
        (one,) = questions_of_audit(shop.coordinator, found)
        assert says in one.sentence
        return one.run_id

    assert asked("tool", 0, 1) == asked("tool", 3)
    long = "t" * 60
    others = {asked("tool", 0), asked("b", 0), asked("tool", 0, topic=f"{long}1"), asked("tool", 0, topic=f"{long}2")}
    assert len(others) == 4


def test_a_disputed_partition_is_asked_about_at_once_and_stays_the_same_question(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    stable(shop, "orders", dict.fromkeys(range(4), "a"))
    shop.kafka.members["g"] = ("tool at 10.0.0.7",)
    found = reconcile(c)
    assert any(line.startswith("KPC-082: orders: tool at 10.0.0.7 subscribes with group g") for line in found.lines)
    (asked,) = found.questions
    assert asked.plain()["conf"] == {"topic": "orders", "consumer": "", "audit": True}
    assert asked.run_id.startswith("audit__orders__")
    assert reconcile(c).questions == (asked,)
    shop.clock.sleep(ASK_AGAIN_S)
    (later,) = reconcile(c).questions
    assert later.run_id != asked.run_id
    assert any(line.startswith("KPC-082: orders: tool") for line in sentences(c))

    ask = question.QuestionOperator(task_id="ask")
    ask._about_audit(c, cast(Any, {"params": asked.plain()["conf"]}))
    assert (ask.subject, ask.options) == ("ownership of orders is disputed", [question.WAIT])
    assert "    KPC-082: orders: tool at 10.0.0.7 subscribes with group g" in str(ask.body)

    shop.kafka.members.clear()
    assert reconcile(c).questions == ()
    with pytest.raises(AirflowSkipException, match="finds nothing now"):
        ask._about_audit(c, cast(Any, {"params": asked.plain()["conf"]}))
