"""The question about a plan over the budget: text, persons asked, effect of an answer."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred
from coordinator_plugin import approval
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.reconcile import reconcile, runs

from coordinator_tasks.core.errors import NotEntitled
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.service.nodes import action_log, topics
from coordinator_tasks.service.plan import plans_to_approve, transitions
from tests.unit.plugins.coordinator_plugin.stage import DAGS, Opened, first
from tests.unit.plugins.coordinator_plugin.test_triggers import Asked
from tests.world.site import LOOP, Site, stable_site

KIM = {"id": "kim", "name": "Kim Lee"}


@pytest.fixture
def site() -> Site:
    """A plan of two moves waits; the budget allows one move."""
    found = stable_site("a", "b", partitions=6)
    found.coordinator = replace(found.coordinator, budget=Budget(moves=1, approvers=("kim",)))
    found.starts("c")
    transitions.step(found.coordinator, ["orders"], LOOP)
    found.clock.advance(5)
    return found


def digest(site: Site) -> str:
    return plans_to_approve.waiting(site.coordinator, ["orders"])["orders"].digest


class Task:
    """A task without XComs: no part of an answer may come from XComs."""

    def __init__(self) -> None:
        self.id = "its id"
        self.dag_id, self.run_id, self.task_id, self.try_number = "approve_plan", "run", "ask", 1


def context(site: Site, plan: str = "") -> Any:
    ti = Task()
    run = type("Run", (), {"triggering_user_name": "", "conf": {}})()
    return {
        "params": {"topic": "orders", "digest": plan or digest(site)},
        "ti": ti,
        "task_instance": ti,
        "dag_run": run,
    }


def ask(site: Site, monkeypatch: pytest.MonkeyPatch) -> approval.PlanApprovalOperator:
    found = approval.PlanApprovalOperator(task_id="ask")
    monkeypatch.setattr(found, "coordinator", Opened(site.coordinator))
    return found


def answered(
    site: Site, monkeypatch: pytest.MonkeyPatch, chosen: list[str], person: dict[str, str] | None, plan: str = ""
) -> Any:
    """The task's work after an answer from Airflow's triggerer."""
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda _self, _context, event: event)
    event = {"chosen_options": chosen, "params_input": {}, "responded_by_user": person}
    return ask(site, monkeypatch).execute_complete(context(site, plan), event)


def test_reconcile_asks_once_for_each_plan_that_waits(site: Site) -> None:
    findings = reconcile(site.coordinator)
    assert findings.due == ()
    (run,) = runs(findings, DAGS, active_rebalances=0)
    plan = digest(site)
    assert run["trigger_dag_id"] == "approve_plan"
    assert run["conf"] == {"topic": "orders", "digest": plan}
    assert run["trigger_run_id"].startswith(f"approve__orders__{plan}__")
    site.clock.advance(60)
    again = runs(reconcile(site.coordinator), DAGS, active_rebalances=0)
    assert again == [run], "Airflow makes one run of one id"
    plans_to_approve.answer(site.coordinator, "orders", plan, granted=False, by=["kim"], why="")
    assert runs(reconcile(site.coordinator), DAGS, active_rebalances=0) == []


def test_the_question_shows_each_move_and_asks_the_approvers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, plan = ask(site, monkeypatch), digest(site)
    hostile = "![x](http://evil) <b>\n# big"
    monkeypatch.setattr(plans_to_approve, "lines", lambda *_: (f"orders: {hostile}", *(f"line {n}" for n in range(99))))
    operator.ask(site.coordinator, "orders", plan)
    assert operator.subject == "orders: a plan waits for approval"
    assert operator.assigned_users == [{"id": "kim", "name": "kim"}]
    body = str(operator.body)
    assert "\nA plan of topic **orders** of cluster **shop** exceeds the budget of the site:\n" in body
    assert "\n-     orders: ![x](http://evil) <b> # big\n" in body, "one line, and all of it is code"
    assert "\n-     and 40 more lines; `preview` shows all" in body
    assert "    joined: c; 2 partitions would move, and the budget is 1: it waits for approval" in body
    assert plan in body
    assert [line for line in body.splitlines() if "![x]" in line and not line.startswith("-     ")] == []


def test_an_approval_is_written_for_a_person_and_the_plan_done(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(site, monkeypatch, ["Approve"], KIM)
    (record,) = action_log.asked(site.coordinator, "orders", 1)
    assert (record.action, record.actor.who, record.actor.dag) == ("approve", "Kim Lee", "approve_plan")
    site.settles()
    assert site.counts() == {"a": 2, "b": 2, "c": 2}


def test_an_answer_is_written_once_zookeeper_is_there_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    said, event = context(site), {"chosen_options": ["Approve"], "params_input": {}, "responded_by_user": KIM}
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda _self, _context, event: event)
    operator = approval.PlanApprovalOperator(task_id="ask")
    monkeypatch.setattr(CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))
    site.server.stop()
    with pytest.raises(TaskDeferred) as waits:
        operator.execute_complete(said, event)
    assert (waits.value.method_name, waits.value.trigger.serialize()[1]["ti_id"]) == ("execute_complete", "its id")
    site.server.start()
    operator.execute_complete(said, event)
    assert topics.configuration(site.coordinator, "orders").approval is not None


@pytest.mark.parametrize("chosen", ["Approve", "Reject"])
def test_an_answer_about_a_former_plan_is_void(site: Site, monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    plan = digest(site)
    topics.set_strategy(site.coordinator, "orders", "roundrobin", {}, LOOP)
    before = site.server.zxid
    with pytest.raises(AirflowSkipException, match="KPC-027"):
        answered(site, monkeypatch, [chosen], KIM, plan)
    assert site.server.zxid == before


@pytest.mark.parametrize("chosen", [["Reject"], [], ["Approve", "Reject"]])
def test_another_answer_approves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch, chosen: list[str]) -> None:
    answered(site, monkeypatch, chosen, KIM)
    answer = topics.configuration(site.coordinator, "orders").approval
    assert answer is None or not answer.granted


@pytest.mark.parametrize("person", [{"id": "ada", "name": "Ada"}, None])
def test_a_strangers_answer_is_void(site: Site, monkeypatch: pytest.MonkeyPatch, person: dict[str, str] | None) -> None:
    before = site.server.zxid
    with pytest.raises(NotEntitled, match=f"{person['name'] if person else 'nobody'} may not approve"):
        answered(site, monkeypatch, ["Approve"], person)
    assert site.server.zxid == before


@pytest.mark.parametrize(("person", "kept"), [(KIM, True), (None, False)])
def test_a_rejection_is_kept_if_a_person_gave_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, person: dict[str, str] | None, kept: bool
) -> None:
    assert answered(site, monkeypatch, ["Reject"], person)["chosen_options"] == ["Reject"]
    assert plans_to_approve.waiting(site.coordinator, ["orders"])["orders"].answered is kept


@pytest.mark.usefixtures("borrowed")
def test_a_changed_plan_withdraws_its_question(site: Site, borrowed: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    borrowed.coordinator = site.coordinator
    plan = digest(site)

    async def scenario() -> bool:
        trigger = Asked("")
        trigger.digest = plan
        question = asyncio.ensure_future(first(trigger))
        await asyncio.sleep(0.2)
        stood = not question.done()
        await asyncio.to_thread(topics.set_strategy, site.coordinator, "orders", "roundrobin", {}, LOOP)
        await question
        return stood

    assert asyncio.run(scenario())
