"""The tasks around the transitions: what follows a form, which runs `reconcile` starts, the load, and missing consumers."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSensorTimeout, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from coordinator_plugin import fleet_runs, hook
from coordinator_plugin.fleet_runs import EVERY_S, FleetRunsOperator
from coordinator_plugin.upkeep import (
    FOLLOW_S,
    MOST_LAUNCHES,
    AutoscaleOperator,
    MissingConsumersOperator,
    ReconcileOperator,
    WatchSensor,
    active_runs,
    given_of,
)

from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.fleet.upgrade import UpgradePhase
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.fleets import autoscale, upgrades
from coordinator_tasks.service.nodes import fleet, upgrade_store
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import DAGS
from tests.world.upgrading import APP, UpgradingSite, to_v2, upgrading_site

Looked = Callable[[Callable[[str], Any]], tuple[list[str], list[str]]]
GIVEN: dict[str, Any] = {"params": {"cluster": "", "app": APP, "dry_run": False}}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> UpgradingSite:
    made = upgrading_site(partitions=4)
    made.advances = False
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(made.coordinator))
    return made


def test_a_text_that_was_emptied_in_airflows_form_is_empty() -> None:
    context: Any = {"params": {"app": "billing", "pattern": None, "count": 0, "topics": []}}
    assert given_of(context) == {"app": "billing", "pattern": "", "count": 0, "topics": []}


def test_it_does_the_steps_of_an_upgrade_until_it_is_done(site: UpgradingSite) -> None:
    to_v2(site, steps=(100,))
    sensor = WatchSensor(task_id="follow", action="upgrade")
    for _ in range(60):
        site.turn()
        if sensor.poke(GIVEN):  # type: ignore[arg-type]
            break
    assert upgrade_store.read(site.coordinator, APP).phase is UpgradePhase.DONE


def test_it_follows_on_when_zookeeper_answers_again(site: UpgradingSite) -> None:
    to_v2(site)
    sensor = WatchSensor(task_id="follow", action="upgrade")
    site.server.stop()
    assert not sensor.poke(GIVEN)  # type: ignore[arg-type]
    site.server.start()
    upgrades.pause(site.coordinator, APP, by=PERSON.named, why="")
    assert sensor.poke(GIVEN)  # type: ignore[arg-type]


def test_after_its_time_it_says_who_continues_and_how_to_follow_again(site: UpgradingSite) -> None:
    to_v2(site)
    long_ago = datetime.now(UTC) - timedelta(seconds=FOLLOW_S + 60)
    context: Any = {**GIVEN, "ti": SimpleNamespace(get_first_reschedule_date=lambda _: long_ago)}
    with pytest.raises(AirflowSensorTimeout, match=r"followed for 30 days.*`reconcile` continues it; clear this task"):
        WatchSensor(task_id="follow", action="upgrade").execute(context)


@pytest.mark.parametrize(
    ("running", "queued", "now", "paused", "counted"),
    [
        pytest.param(0, 1, True, False, 0, id="what can be done now does not wait for a run that is queued for later"),
        pytest.param(0, 1, False, False, 1, id="what waits for its time waits for that run"),
        pytest.param(0, 1, True, True, 1, id="a paused DAG gets no further run each minute"),
        pytest.param(1, 1, True, False, 1, id="a run that is under way finds it itself"),
        pytest.param(0, 0, True, False, 0, id="no run"),
    ],
)
def test_runs_for_later_stop_no_reconcile(running: int, queued: int, *, now: bool, paused: bool, counted: int) -> None:
    runs = {"running": running, "queued": queued}
    ti: Any = SimpleNamespace(
        get_dr_count=lambda _, states: sum(runs[state] for state in states),
        get_dag=lambda _: SimpleNamespace(is_paused=paused),
    )
    assert active_runs(ti, "rebalance", now=now) == counted


def test_a_fleet_gets_a_run_of_its_own_unless_one_is_under_way(shop: Cluster) -> None:
    for app in ("slow", "quick"):
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", (f"{app}-1",)))
    ti: Any = SimpleNamespace(
        get_dr_count=lambda _, states, run_ids=(): int(any(one.startswith("fleet__slow__") for one in run_ids)),
        get_ti_count=lambda *_, **__: 0,
        get_dag=lambda _: SimpleNamespace(is_paused=False),
    )
    woken = ReconcileOperator(task_id="look", dag_ids=DAGS).execute({"ti": ti})  # type: ignore[typeddict-item]
    assert [(one["trigger_dag_id"], one["conf"]) for one in woken] == [("consumers", {"app": "quick"})]


@pytest.fixture
def looked(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> Looked:
    """Runs the task on a due topic and a missing consumer; given what Airflow says of a DAG, the lines and the DAGs to start."""
    shop.join("a")
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("c1",)))
    said: list[str] = []
    monkeypatch.setattr(ReconcileOperator, "say", lambda _, lines: said.extend(lines))

    def look(get_dag: Callable[[str], Any]) -> tuple[list[str], list[str]]:
        ti: Any = SimpleNamespace(get_dr_count=lambda *_, **__: 0, get_dag=get_dag)
        woken = ReconcileOperator(task_id="look", dag_ids=DAGS).execute({"ti": ti})  # type: ignore[typeddict-item]
        return said, [one["trigger_dag_id"] for one in woken]

    return look


@pytest.mark.parametrize("paused", ["rebalance", "consumers", ""])
def test_reconcile_names_the_paused_dag_that_its_findings_wait_for(looked: Looked, paused: str) -> None:
    said, _ = looked(lambda dag_id: SimpleNamespace(is_paused=dag_id == paused))
    told = f"{paused} is paused in Airflow, so its part of this is not done: unpause it"
    assert [one for one in said if "paused" in one] == ([told] if paused else [])


def test_a_dag_that_airflow_does_not_have_stops_no_other_one(looked: Looked) -> None:
    def get_dag(dag_id: str) -> SimpleNamespace:
        if dag_id == "consumers":
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 404}))
        return SimpleNamespace(is_paused=False)

    said, woken = looked(get_dag)
    assert any(line.startswith("Airflow says nothing about consumers, so") and "404" in line for line in said)
    assert woken == ["rebalance", "consumers"]


@pytest.mark.parametrize(
    ("scheduled", "begun", "told"),
    [
        pytest.param(2, 0, True, id="Airflow begins none of them"),
        pytest.param(2, 1, False, id="the others are launched first"),
        pytest.param(0, 1, False, id="all are under way"),
    ],
)
def test_reconcile_names_the_pool_that_launches_wait_for(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch, scheduled: int, begun: int, *, told: bool
) -> None:
    monkeypatch.setenv("COORDINATOR_LAUNCH_POOL", "launches")
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("c1", "c2")))
    said: list[str] = []
    monkeypatch.setattr(ReconcileOperator, "say", lambda _, lines: said.extend(lines))

    def get_ti_count(dag_id: str, task_ids: list[str], states: list[str]) -> int:
        assert (dag_id, task_ids) == ("consumers", ["launch"])
        return scheduled if states == ["scheduled"] else begun

    ti: Any = SimpleNamespace(
        get_dr_count=lambda dag_id, states, run_ids=(): int(dag_id == "consumers" and "running" in states),
        get_dag=lambda _: SimpleNamespace(is_paused=False),
        get_ti_count=get_ti_count,
    )
    assert ReconcileOperator(task_id="look", dag_ids=DAGS).execute({"ti": ti}) == []  # type: ignore[typeddict-item]
    line = (
        "2 launch tasks wait, and none runs: Airflow has no pool 'launches', or no free slot in it; `airflow pools list` shows it, and "
        "`airflow pools set launches 8 coordinator` makes it"
    )
    assert [one for one in said if "pool" in one] == ([line] if told else [])


def test_each_fleet_has_a_line_and_what_cannot_be_read_another(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, ti = (
        AutoscaleOperator(task_id="look"),
        SimpleNamespace(**dict.fromkeys(("dag_id", "run_id", "task_id"), "x"), try_number=1),
    )
    context: Any = {"ti": ti, "dag_run": object(), "params": {}}
    said: list[str] = []
    monkeypatch.setattr(operator, "say", said.extend)
    assert operator.execute(context) == []
    assert said == ["no fleet has limits of growth"]
    for app in ("billing", "web"):
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", (f"{app}-1",)))
        autoscale.set_growth(shop.coordinator, app, Limits())
    shop.zk.transact([SetData(shop.paths.growth("web"), b"{")])
    said.clear()
    line = "billing: hold: nothing is decided: billing-1 is wanted and not there yet"
    assert operator.execute(context) == [line]
    assert said[0] == line
    assert said[1].startswith("the fleet web is left as it is: ")


# Runs by fleet, and the missing consumers that a run launches --------------------------------------------------------

AIRFLOWS_LIMIT = 1_024


class Runs:
    """A task instance in a run of `consumers`; `active`: the runs that have not ended."""

    dag_id = "consumers"

    def __init__(self, *active: str, run_id: str = "") -> None:
        self.active, self.run_id = set(active), run_id

    def get_dr_count(self, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == ("consumers", ["queued", "running"])
        assert sum(len(one) + 10 for one in run_ids) < 16_000, "they stand in an address"
        return len(self.active.intersection(run_ids))


def context(app: str, ti: Runs) -> Any:
    return {"params": {"app": app}, "ti": ti}


def launched(app: str, ti: Runs | None = None) -> list[str]:
    """The consumers launched by a run for this fleet."""
    found = MissingConsumersOperator(task_id="missing").execute(context(app, ti or Runs()))
    return [one["consumer"] for one in found]


def wanted(shop: Cluster, **fleets: int) -> None:
    """Fleets of so many consumers, all missing."""
    for app, count in fleets.items():
        fleet.set_fleet(shop.coordinator, Fleet(app, "app.py", tuple(f"{app}-{number}" for number in range(count))))


def started(ti: Runs, app: str = "") -> dict[str, str]:
    """Fleet -> id of the run started for the fleet."""
    found = FleetRunsOperator(task_id="fleets").execute(context(app, ti))
    return {one["conf"]["app"]: one["trigger_run_id"] for one in found}


def test_a_slow_run_delays_no_other_fleet_and_gets_no_second(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, slow=2, quick=1)
    now = SimpleNamespace(time=lambda: 1_000_000_000.0)
    monkeypatch.setattr(fleet_runs, "time", now)
    first = started(Runs())
    assert first.keys() == {"slow", "quick"}
    now.time = lambda: 1_000_000_000.0 + 11 * 60
    assert started(Runs(first["slow"])).keys() == {"quick"}
    now.time = lambda: 1_000_000_000.0 - EVERY_S
    assert started(Runs(first["slow"])).keys() == {"quick"}, "by a clock that is behind"


def test_of_two_runs_for_a_fleet_the_earlier_one_launches(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(shop, a=1)
    now = SimpleNamespace(time=lambda: 1_000_000_000.0)
    monkeypatch.setattr(fleet_runs, "time", now)
    one = started(Runs())["a"]
    now.time = lambda: 1_000_000_000.0 + EVERY_S
    two = started(Runs())["a"]
    assert launched("a", Runs(one, two, run_id=one)) == ["a-0"]
    assert launched("a", Runs(one, two, run_id=two)) == []
    assert launched("a", Runs(two, run_id=two)) == ["a-0"]


def test_a_run_launches_for_its_fleet_alone_or_nothing_at_all(shop: Cluster) -> None:
    wanted(shop, a=2, b=1)
    assert launched("a") == ["a-0", "a-1"]
    assert launched("") == []
    assert started(Runs(), "a") == {}


def test_a_run_launches_no_more_than_airflow_maps(shop: Cluster) -> None:
    wanted(shop, a=AIRFLOWS_LIMIT + 1)
    found = launched("a")
    assert len(set(found)) == len(found) == MOST_LAUNCHES
    assert len(found) <= AIRFLOWS_LIMIT
