"""Which stuck topics a person is asked about, and how often."""

from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from coordinator_plugin import question
from coordinator_plugin.reconcile import reconcile
from coordinator_plugin.stuck_topics import ASK_AGAIN_S

from coordinator_tasks.service import directives, topics, transitions
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import stable


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


def test_partitions_that_nobody_owns_are_told_at_once_and_asked_about_when_that_lasts(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    directives.drain(c, "a", "ada", "new disk")
    stable(shop, "orders", {0: "a"})
    transitions.plan(c, ["orders"], PERSON)
    found = reconcile(c)
    assert any(line.startswith("orders: nobody owns partitions 1") for line in found.lines)
    assert found.questions == ()
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    (asked,) = reconcile(c).questions
    assert asked.plain()["conf"] == {"topic": "orders", "consumer": ""}
    (again,) = reconcile(c).questions
    assert again.run_id == asked.run_id

    ask = question.QuestionOperator(task_id="ask")
    ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))
    assert ask.subject.startswith("nobody owns partition")
    assert "no live consumer is there to take partitions 1" in str(ask.body)
    assert ask.options == [question.WAIT], "there is nobody to isolate"

    topics.remove_topic(c, "orders", PERSON)
    assert reconcile(c).questions == ()
    with pytest.raises(AirflowSkipException, match="nobody is asked"):
        ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))
