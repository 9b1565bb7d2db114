"""The planning operators, and the operators that continue with a run's leftovers."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DagRunTriggerException
from airflow.sdk import DAG, Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from coordinator_plugin import base_operators, hook, operators
from coordinator_plugin.operators import ContinueOperator, PlanOperator
from coordinator_plugin.steps import IDLE_PAUSE_S, LeftOver, continuation

from coordinator_tasks.core.model import Silence
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster
from tests.world.site import Site, stable_site


class Told(list[Any]):
    """The events with the leftovers of runs; `after` as Airflow's."""

    def after(self, since: str) -> list[Any]:
        return [one for one in self if one.timestamp >= datetime.fromisoformat(since)]


def told(left: str, ago_s: float = 0.0, run: str = "other") -> SimpleNamespace:
    """The event of a run with these leftovers."""
    return SimpleNamespace(timestamp=NOW - timedelta(seconds=ago_s), extra={"left": left}, source_run_id=run)


NOW = datetime.now(UTC)


BEGAN_AGO_S = 10.0


def goes_on(
    topics: Sequence[str] = (),
    lately: Sequence[SimpleNamespace] = (),
    woken_by: Sequence[SimpleNamespace] = (),
    queued: int = 0,
) -> tuple[list[dict[str, Any]], DagRunTriggerException | None]:
    """The extras of the last task's wake-up events, and the run that the task starts."""
    asset = Asset(name="zookeeper", uri="zookeeper://shop/topics")
    task = ContinueOperator(task_id="further_run", trigger_dag_id="rebalance", changes=asset)
    events = OutletEventAccessors()
    (alias,) = task.outlets
    assert task.inlets == [alias]
    context: Any = {
        "ti": SimpleNamespace(get_dr_count=lambda dag_id, states: queued if states == ["queued"] else 0),
        "dag_run": SimpleNamespace(start_date=NOW - timedelta(seconds=BEGAN_AGO_S)),
        "params": {"topics": list(topics)},
        "outlet_events": events,
        "inlet_events": {alias: Told([*lately, *woken_by])},
        "triggering_asset_events": {alias: woken_by} if woken_by else {},
    }
    started = None
    try:
        task.execute(context)
    except DagRunTriggerException as error:
        started = error
    return [one.extra for one in events[alias].asset_alias_events], started


def test_what_can_go_on_at_once_wakes_the_dag_as_zookeeper_does(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = continuation(shop.coordinator, []).digest
    assert continuation(shop.coordinator, ["orders"]).digest == left, "a run that names the topic agrees"
    assert goes_on() == ([{"left": left}], None)
    # The woken run waits as long as any run, and then continues with the leftovers.
    for other in (left, "something else"):
        assert goes_on(woken_by=[told(other)]) == ([{"left": left}], None)


@pytest.mark.parametrize(
    ("other", "ago_s", "skipped"), [(False, 1, True), (False, BEGAN_AGO_S + 1, False), (True, 1, False)]
)
def test_of_runs_with_equal_leftovers_the_last_run_continues(
    shop: Cluster, other: bool, ago_s: float, skipped: bool
) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = "something else" if other else continuation(shop.coordinator, []).digest
    lately = [told(left, ago_s)]
    if skipped:
        with pytest.raises(AirflowSkipException, match="another run continues with it"):
            goes_on(lately=lately)
        # The woken run is the other run, also where the clocks of Airflow's hosts differ.
        assert goes_on(woken_by=lately)[0]
    else:
        assert goes_on(lately=lately)[0]


def test_what_a_run_could_not_write_is_tried_after_a_pause(shop: Cluster) -> None:
    shop.join("a")
    left = continuation(shop.coordinator, [])
    assert (left.now, left.writable) == (True, True)
    assert goes_on() == ([{"left": left.digest}], None)
    before = datetime.now(UTC)
    events, started = goes_on(woken_by=[told(left.digest)])
    assert events == []
    assert started is not None
    assert started.run_after is not None
    assert (started.run_after - before).total_seconds() >= IDLE_PAUSE_S


def test_what_waits_for_its_time_is_looked_at_when_it_is_over(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(pause_s: float) -> DagRunTriggerException:
        left = LeftOver(("orders",), "digest", now=False, pause_s=pause_s)
        monkeypatch.setattr(operators, "continuation", lambda *_: left)
        events, started = goes_on(["orders"])
        assert events == []
        assert started is not None
        assert started.conf == {"topics": ["orders"]}
        return started

    before = datetime.now(UTC)
    started = at(60.0)
    assert started.run_after is not None
    assert 60 <= (started.run_after - before).total_seconds() < 120
    # Airflow makes one run for each id: two runs with the same leftovers name the same time, a later run another time.
    assert started.dag_run_id == f"further__digest__{started.run_after:%Y%m%dT%H%M%S}"
    assert at(120.0).dag_run_id != started.dag_run_id


@pytest.mark.parametrize(
    ("queued", "pause_s", "starts"),
    [
        pytest.param(1, 600.0, True, id="the DAG has room"),
        pytest.param(2, 60.0, True, id="it is over before the next look of reconcile"),
        pytest.param(
            2, 600.0, False, id="two further ones, and no event of ZooKeeper would wake the DAG for ten minutes"
        ),
    ],
)
def test_runs_that_are_queued_for_later_leave_room_for_those_of_changes(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch, queued: int, pause_s: float, *, starts: bool
) -> None:
    left = LeftOver(("orders",), "digest", now=False, pause_s=pause_s)
    monkeypatch.setattr(operators, "continuation", lambda *_: left)
    if starts:
        assert goes_on(queued=queued)[1] is not None
        return
    with pytest.raises(AirflowSkipException, match="reconcile continues within a minute"):
        goes_on(queued=queued)


def skipped_by_plan(site: Site, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tasks without work after a plan of all topics."""
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))
    found: set[str] = set()
    monkeypatch.setattr(PlanOperator, "skip", lambda _, ti, tasks: found.update(task.task_id for task in tasks))
    with DAG("rebalance"):
        plan = PlanOperator(task_id="plan", closing_steps=("start",), last_step="further_run")
        plan >> BaseOperator(task_id="start") >> BaseOperator(task_id="settle") >> BaseOperator(task_id="further_run")
    ti = SimpleNamespace(dag_id="rebalance", run_id="r", task_id="plan", try_number=1, xcom_push=lambda **_: None)
    context: Any = {"ti": ti, "dag_run": SimpleNamespace(), "params": {"topics": []}}
    plan.execute(context)
    return found


def test_a_run_looks_again_for_an_absent_owner_until_its_partitions_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    site = stable_site("a", "b")
    site.with_policy(settle_s=0.0)
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle", "further_run"}
    site.processes["b"].silence = Silence.REFUSED
    site.loses_session("b")
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle"}
    left = continuation(site.coordinator, [])
    assert (left.topics, left.now, left.pause_s) == (("orders",), False, site.zk.session_timeout_s)
    site.clock.advance(site.zk.session_timeout_s)
    assert skipped_by_plan(site, monkeypatch) == {"start"}
    site.settles()
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle", "further_run"}


def plans(monkeypatch: pytest.MonkeyPatch, run_type: str, *topics: str) -> list[dict[str, Any]]:
    """The report of the first task of a run for these topics."""
    monkeypatch.setattr(PlanOperator, "skip", lambda *_: None)
    with DAG("rebalance"):
        plan = PlanOperator(task_id="plan")
    ti = SimpleNamespace(dag_id="rebalance", run_id="r", task_id="plan", try_number=1, xcom_push=lambda **_: None)
    run = SimpleNamespace(run_type=run_type)
    context: Any = {"ti": ti, "dag_run": run, "params": {"topics": list(topics), "dry_run": False}}
    return plan.execute(context)


def test_a_person_who_names_an_unmanaged_topic_is_told_so(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.join("a")
    with pytest.raises(AirflowFailException, match=r"'order' is not managed.*it manages: orders.*correct the name"):
        plans(monkeypatch, "manual", "order", "orders")
    assert continuation(shop.coordinator, []).writable
    assert [one["outcome"] for one in plans(monkeypatch, "manual", "orders")] == ["written"]


def test_an_airflow_without_runs_for_later_leaves_the_pause(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_operators, "CAN_RUN_LATER", False)
    left = LeftOver(("orders",), "digest", now=False, pause_s=60.0)
    monkeypatch.setattr(operators, "continuation", lambda *_: left)
    with pytest.raises(AirflowSkipException, match="reconcile continues within a minute"):
        goes_on(["orders"])
