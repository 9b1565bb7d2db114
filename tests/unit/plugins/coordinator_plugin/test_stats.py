"""The coordinator's values in Airflow's own metrics, in both forms: with tags, and as names of plain StatsD."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.observability import stats as airflow_stats
from coordinator_plugin import stats, upkeep
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.operators import SettleOperator
from coordinator_plugin.reconcile import reconcile

from coordinator_tasks.core.machine.audit import FindingKind
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Move, MoveKind, Pause, Pauses, State, TopicStatus, Unmoved
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.plan.transitions import TopicReport
from tests.fakes.cluster import PERSON
from tests.unit.coordinator_tasks.service.fleets.test_autoscale import BUSY, fleet_site
from tests.unit.plugins.coordinator_plugin.stage import DAGS
from tests.world.site import Site, stable_site

Sent = dict[tuple[str, frozenset[tuple[str, str]]], list[Any]]


def unasked() -> float:
    raise AssertionError("every partition has an owner")


class Backend:
    """Keeps the sent metrics, by name and tags."""

    def __init__(self) -> None:
        self.sent: Sent = {}

    def _keep(self, stat: str, value: Any, tags: dict[str, str] | None = None) -> None:
        self.sent.setdefault((stat, frozenset((tags or {}).items())), []).append(value)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str] | None = None, **_: Any) -> None:
        self._keep(stat, value, tags)

    def incr(self, stat: str, count: int = 1, *, tags: dict[str, str] | None = None, **_: Any) -> None:
        self._keep(stat, count, tags)

    def timing(self, stat: str, dt: timedelta, *, tags: dict[str, str] | None = None) -> None:
        self._keep(stat, dt.total_seconds(), tags)

    def of(self, stat: str, **tags: str) -> list[Any]:
        return self.sent.get((stat, frozenset(tags.items())), [])


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    airflow_stats.initialize(factory=cast("Any", lambda: made), export_legacy_names=False)
    yield made
    airflow_stats.initialize(factory=cast("Any", Backend), export_legacy_names=False)


@pytest.fixture(params=["otel_on", "statsd_datadog_enabled"])
def tagged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__METRICS__{request.param.upper()}", "True")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")


def report(outcome: TopicOutcome = TopicOutcome.WRITTEN, after: State = State.STABLE) -> TopicReport:
    moves = (Move(0, "a", "b", MoveKind.HANDOFF), Move(1, "a", "b", MoveKind.HANDOFF), Move(2, "", "b", MoveKind.START))
    return TopicReport("orders.eu", State.STARTING, after, outcome, "", moves)


@pytest.mark.usefixtures("tagged")
def test_gauges_of_topics_and_consumers_have_tags(backend: Backend) -> None:
    site = stable_site("a", "b")
    site.dies("b", how=None)
    stats.tell_figures(site.coordinator, unasked)
    of_topic = {"cluster": "shop", "topic": "orders"}
    assert backend.of("coordinator.topic.partitions", **of_topic) == [4]
    assert backend.of("coordinator.topic.state", **of_topic, state="Stable") == [1]
    assert backend.of("coordinator.topic.state", **of_topic, state="Closing") == [0]
    assert backend.of("coordinator.topic.unreadable", **of_topic) == [0]
    assert backend.of("coordinator.consumers", cluster="shop", presence="absent") == [1]
    assert backend.of("coordinator.consumers", cluster="shop", presence="draining") == [0], (
        "StatsD would keep the last value"
    )


@pytest.mark.usefixtures("tagged")
def test_a_partition_without_an_owner_counts_for_the_time_since_the_last_look(backend: Backend) -> None:
    site = stable_site("a")
    site.dies("a")
    site.settles()
    stats.tell_figures(site.coordinator, lambda: 61.2)
    assert backend.of("coordinator.unowned_partition_seconds", cluster="shop", topic="orders") == [245]


def test_a_run_counts_from_the_last_one_that_worked_and_not_for_what_nobody_saw() -> None:
    # No worker was free for so long: the next run counts these seconds.
    began_at = datetime.now(UTC) - timedelta(seconds=40)

    def after(seconds: float | None) -> Any:
        before = None if seconds is None else began_at - timedelta(seconds=seconds)
        run = SimpleNamespace(start_date=began_at, logical_date=began_at, run_type="scheduled")
        return {"prev_start_date_success": before, "dag_run": run}

    assert upkeep.passed_s(after(90)) == pytest.approx(90)
    assert upkeep.passed_s(after(5_000)) == upkeep.MOST_S
    assert upkeep.passed_s(after(-5)) == 0.0
    assert upkeep.passed_s(after(None)) == upkeep.TURN_S


@pytest.mark.parametrize(("logical", "kind"), [(False, "manual"), (True, "backfill")])
def test_a_run_beside_the_schedule_counts_no_seconds_that_the_next_one_counts_too(logical: bool, kind: str) -> None:
    began_at = datetime.now(UTC)
    run = SimpleNamespace(start_date=began_at, logical_date=began_at if logical else None, run_type=kind)
    before = began_at - timedelta(seconds=70) if logical else None  # Airflow knows no such run without a logical date
    context: Any = {"prev_start_date_success": before, "dag_run": run}
    assert upkeep.passed_s(context) == 0.0


def reconciled(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runs started by the task of `reconcile`."""
    monkeypatch.setattr(CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))
    task = SimpleNamespace(get_dr_count=lambda *_, **__: 0, get_dag=lambda _: SimpleNamespace(is_paused=False))
    return upkeep.ReconcileOperator(task_id="look", dag_ids=DAGS).execute(cast("Any", {"ti": task}))


def lagging(site: Site, says: dict[int, dict[str, Any]]) -> None:
    """From now on consumer a reports this about its partitions."""

    def said(one: TopicStatus) -> TopicStatus:
        return replace(one, running={p: replace(each, **says[p]) for p, each in one.running.items()})

    site.tells("a", said)


@pytest.mark.usefixtures("tagged")
def test_the_lag_is_the_owners_report_and_missing_reports_are_counted(backend: Backend) -> None:
    site, of_topic = stable_site("a", "b"), {"cluster": "shop", "topic": "orders"}
    mine = [p for p, owner in site.node().assignments.items() if owner == "a"]
    lagging(site, {mine[0]: {"lag_records": 50, "rate": 10.0}, mine[1]: {"lag_records": 7, "rate": None}})
    stats.tell_figures(site.coordinator, unasked)
    assert backend.of("coordinator.topic.lag", **of_topic) == [57]
    assert backend.of("coordinator.topic.lag_seconds", **of_topic) == [5.0]
    assert backend.of("coordinator.topic.lag_unknown_partitions", **of_topic) == [2]
    assert backend.of("coordinator.consumer.incarnation", cluster="shop", consumer="b") == [1]


@pytest.mark.usefixtures("tagged")
def test_what_the_growth_policy_finds_right_is_a_gauge(backend: Backend) -> None:
    site = fleet_site(BUSY)
    list(autoscale.look(site.coordinator, (), PERSON))
    stats.tell_figures(site.coordinator, unasked)
    assert backend.of("coordinator.fleet.consumers_desired", cluster="shop", fleet="billing") == [6]


@pytest.mark.usefixtures("tagged")
def test_the_findings_of_reconciles_audit_are_gauges_by_kind(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    site = stable_site("a", "b")
    site.kafka.members["g"] = ("tool at 10.0.0.7",)
    reconciled(site, monkeypatch)
    found = {
        kind.word: backend.of("coordinator.audit.findings", cluster="shop", kind=kind.word) for kind in FindingKind
    }
    assert found == {kind.word: [{"intruder": 1, "old_code": 2}.get(kind.word, 0)] for kind in FindingKind}
    assert backend.of("coordinator.audit.left_out", cluster="shop") == [0]


@pytest.mark.usefixtures("tagged")
def test_unreadable_figures_keep_reconcile_from_no_run(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    site = stable_site("a")
    site.starts("b")
    site.zk.ensure(site.paths.fleets)
    site.zk.denied.add(site.paths.fleets)
    assert [one["trigger_dag_id"] for one in reconciled(site, monkeypatch)] == ["rebalance"]
    assert backend.of("coordinator.audit.left_out", cluster="shop") == [1]


@pytest.mark.usefixtures("plain")
def test_plain_statsd_has_cluster_and_topic_in_the_name(backend: Backend) -> None:
    stats.tell_reports("shop", [report()])
    assert backend.of("coordinator.moves.shop.orders__eu.handoff") == [2]
    assert backend.of("coordinator.moves.shop.orders__eu.start") == [1]
    assert backend.of("coordinator.rebalances.shop.orders__eu") == [1]


@pytest.mark.usefixtures("plain")
def test_a_group_whose_name_statsd_refuses_has_its_metric(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "group_statuses", lambda _: {"team/büro:v1 eu|x": 2})
    stats.tell_figures(stable_site("a").coordinator, unasked)
    assert backend.of("coordinator.group.status.shop.team/b_ro_v1_eu_x") == [2]
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    monkeypatch.setattr(stats, "group_statuses", lambda _: {"team.a,b=c:v1": 3})
    stats.tell_figures(stable_site("a").coordinator, unasked)
    assert backend.of("coordinator.group.status", cluster="shop", group="team.a_b_c_v1") == [3]


@pytest.mark.usefixtures("tagged")
def test_a_group_that_nobody_has_judged_lately_is_unknown_and_keeps_no_former_status(backend: Backend) -> None:
    stats.tell_figures(stable_site("a").coordinator, unasked)
    assert backend.of("coordinator.group.status", cluster="shop", group="g") == [0]


@pytest.mark.usefixtures("tagged")
def test_a_measured_pause_is_a_timing_and_one_that_is_not_known_is_none(backend: Backend) -> None:
    found = (Pause(0, wait_s=0.023, records=4), Pause(1, wait_s=2.0, records=1, least=True), Pause(2))
    stats.pauses_told("shop")("orders", Pauses(found, unmoved=Unmoved(2, 0.01, 3, "a", 0.01)))
    assert backend.of("coordinator.pause", cluster="shop", topic="orders") == [0.023]
    assert backend.of("coordinator.pause_records", cluster="shop", topic="orders") == [5]
    assert backend.of("coordinator.unmoved_stall", cluster="shop", topic="orders") == [0.01]


def test_nothing_is_asked_where_no_metrics_are_on(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("figures were asked for")

    monkeypatch.setattr(stats, "figures", refuse)
    stats.tell_figures(stable_site("a").coordinator, unasked)
    assert backend.sent == {}


@pytest.mark.usefixtures("tagged")
def test_reconcile_sends_the_pauses_that_it_measures(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    site = stable_site("a", "b")
    seen: list[str] = []
    monkeypatch.setattr(
        "coordinator_tasks.service.plan.pauses.complete",
        lambda _c, _topics, told: (
            (seen.append("asked"), told("orders", Pauses((Pause(0, wait_s=0.01, records=1),))))[1] or ()
        ),
    )
    reconcile(site.coordinator)
    assert seen == ["asked"]
    assert backend.of("coordinator.pause", cluster="shop", topic="orders") == [0.01]


@pytest.mark.usefixtures("tagged")
def test_settle_sends_what_it_has_written_and_measured(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    site: Site = stable_site("a")
    told: list[object] = []
    monkeypatch.setattr(
        "coordinator_plugin.operators.pauses.complete_within", lambda *given: (told.append(given[-1]), ())[1]
    )
    SettleOperator(task_id="settle").completed(site.coordinator, [report()])
    (tell,) = told
    tell("orders", Pauses((Pause(0, wait_s=0.5),)))  # type: ignore[operator]
    assert backend.of("coordinator.pause", cluster="shop", topic="orders") == [0.5]
