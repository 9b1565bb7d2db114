"""The doctor's findings about an Airflow, by the answers of Airflow's API."""

import copy
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.doctor import CheckResult, DoctorFinding
from coordinator_tasks.doctor.airflow import PASSWORD, TOKEN, USER, Api, ClusterFacts, examine

Answers = dict[str, Any]
HEALTHY = {"status": "healthy"}


def dag(name: str, cluster: str = "main", *, paused: bool = False) -> Any:
    return {"dag_id": name, "is_paused": paused, "tags": [{"name": "coordinator"}, {"name": cluster}]}


def asset(scope: str) -> Any:
    watchers = [{"name": "x", "trigger_id": 1}]
    return {
        "name": f"zookeeper_main_{scope}",
        "watchers": watchers,
        "last_asset_event": {"timestamp": "2026-11-25T01:00:00Z"},
    }


def run(state: str, ago_s: float) -> Any:
    return {"state": state, "end_date": (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat()}


def ahead(state: str, field: str) -> Any:
    later = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    return {"dag_run_id": "manual__1", "state": state, "end_date": None, "logical_date": None, field: later}


def healthy() -> Answers:
    names = ("rebalance", "reconcile", "consumers", "stuck_topic")
    tasks = {f"/api/v2/dags/{name}/tasks": {"tasks": [{"pool": "default_pool"}]} for name in names}
    option = {"key": "scheduler_idle_sleep_time", "value": "0.1"}
    return {
        "/api/v2/monitor/health": dict.fromkeys(("metadatabase", "scheduler", "dag_processor", "triggerer"), HEALTHY),
        "/auth/token": {"access_token": "t"},
        "/api/v2/version": {"version": "3.3.2"},
        "/api/v2/plugins": {"plugins": [{"name": "coordinator"}]},
        "/api/v2/importErrors": {"import_errors": []},
        "/api/v2/dags": {"dags": [*map(dag, names), dag("rebalance__eu", "eu", paused=True)]},
        "/api/v2/dags/reconcile/dagRuns": {"dag_runs": [{"state": "running", "end_date": None}, run("success", 20)]},
        "/api/v2/dags/consumers/dagRuns": {"dag_runs": [run("success", 86_400)]},
        **tasks,
        "/api/v2/assets": {"assets": [asset("topics"), asset("fleet")]},
        "/api/v2/pools/default_pool": {"slots": 128, "open_slots": 120, "queued_slots": 0},
        "/api/v2/connections/zookeeper_default": {"host": "zk1:2181"},
        "/api/v2/connections/kafka_default": {"host": None},
        "/api/v2/config": {"sections": [{"name": "scheduler", "options": [option]}]},
    }


def asked(
    answers: Answers,
    environ: dict[str, str] | None = None,
    needed: tuple[str, ...] = (),
    changed: dict[str, float] | None = None,
    behind_s: float = 0.0,
) -> tuple[list[DoctorFinding], list[httpx.Request]]:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        found = answers.get(request.url.path, 404)
        headers = {"Date": format_datetime(datetime.now(UTC) - timedelta(seconds=behind_s), usegmt=True)}
        if isinstance(found, int):
            return httpx.Response(found, headers=headers)
        body = found if isinstance(found, Iterator) else iter([json.dumps(found).encode()])
        return httpx.Response(200, content=body, headers=headers)

    api = Api("http://airflow:8080/", environ or {USER: "ada", PASSWORD: "pw"}, httpx.MockTransport(answer))
    return list(examine(api, "main", lambda: ClusterFacts(needed, changed or {}))), requests


def with_dags(*dags: Any) -> Answers:
    answers = healthy()
    answers["/api/v2/dags"]["dags"] += dags
    names = ("approve_plan", "autoscale")
    answers["/api/v2/dags/autoscale/dagRuns"] = {"dag_runs": [run("success", 20)]}
    return answers | {f"/api/v2/dags/{name}/tasks": {"tasks": [{"pool": "default_pool"}]} for name in names}


def of(found: list[DoctorFinding], check: str) -> DoctorFinding:
    (one,) = [one for one in found if one.check == check]
    return one


def test_a_healthy_airflow_is_ok_in_every_check_and_is_only_read() -> None:
    found, requests = asked(healthy())
    assert {one.result for one in found} == {CheckResult.OK}, [one for one in found if one.result is not CheckResult.OK]
    assert of(found, "Airflow").says == "http://airflow:8080 answers; version 3.3.2"
    assert [(one.method, one.url.path) for one in requests if one.method != "GET"] == [("POST", "/auth/token")]
    (dags,) = [one for one in requests if one.url.path == "/api/v2/dags"]
    assert (dags.url.params.get_list("tags"), dags.url.params["tags_match_mode"]) == (["coordinator", "main"], "all")
    assert all(one.headers["authorization"] == "Bearer t" for one in requests[2:])


def test_a_token_needs_no_password() -> None:
    _, requests = asked(healthy(), {TOKEN: "given"})
    assert [one for one in requests if one.method == "POST"] == []
    assert requests[-1].headers["authorization"] == "Bearer given"


CASES: dict[str, tuple[Callable[[Answers], Any], str, CheckResult, str]] = {
    "no triggerer": (
        lambda a: a["/api/v2/monitor/health"].update(triggerer={"status": None}),
        "Airflow triggerer", CheckResult.FAILED, "waits, questions and the watcher of ZooKeeper stand still",
    ),
    "no plugin": (lambda a: a["/api/v2/plugins"].update(plugins=[]), "Airflow plugin", CheckResult.FAILED, "plugins folder"),
    "broken DAG file": (
        lambda a: a["/api/v2/importErrors"].update(import_errors=[{"filename": "reconcile.py"}]),
        "Airflow DAG files", CheckResult.WARNING, "error",
    ),
    "paused reconcile": (
        lambda a: a["/api/v2/dags"]["dags"][1].update(is_paused=True),
        "Airflow DAG reconcile", CheckResult.FAILED, "airflow dags unpause reconcile",
    ),
    "paused stuck_topic": (
        lambda a: a["/api/v2/dags"]["dags"][3].update(is_paused=True),
        "Airflow DAG stuck_topic", CheckResult.WARNING, "airflow dags unpause stuck_topic",
    ),
    "no DAG": (
        lambda a: a["/api/v2/dags"].update(dags=[dag("rebalance__eu", "eu")]),
        "Airflow DAG rebalance", CheckResult.FAILED, "COORDINATOR_CLUSTERS",
    ),
    "failed reconcile": (
        lambda a: a["/api/v2/dags/reconcile/dagRuns"].update(dag_runs=[run("failed", 5), run("success", 70)]),
        "Airflow reconcile", CheckResult.FAILED, "see the log of its task",
    ),
    "old reconcile": (
        lambda a: a["/api/v2/dags/reconcile/dagRuns"].update(dag_runs=[run("success", 900)]),
        "Airflow reconcile", CheckResult.FAILED, "free slots",
    ),
    "a run of reconcile whose logical date is in the future": (
        lambda a: a["/api/v2/dags/reconcile/dagRuns"].update(dag_runs=[ahead("running", "logical_date")]),
        "Airflow reconcile", CheckResult.FAILED, "mark that run as failed",
    ),
    "a run of consumers whose logical date is in the future": (
        lambda a: a["/api/v2/dags/consumers/dagRuns"].update(dag_runs=[ahead("running", "logical_date")]),
        "Airflow consumers", CheckResult.WARNING, "mark that run as failed",
    ),
    "no run yet": (
        lambda a: a["/api/v2/dags/reconcile/dagRuns"].update(dag_runs=[]),
        "Airflow reconcile", CheckResult.WARNING, "wait a minute",
    ),
    "no watcher": (
        lambda a: a["/api/v2/assets"]["assets"][0].update(watchers=[]),
        "Airflow watcher of topics", CheckResult.FAILED, "restart the dag-processor",
    ),
    "no asset": (lambda a: a["/api/v2/assets"].update(assets=[]), "Airflow watcher of fleet", CheckResult.FAILED, "reconcile"),
    "missing pool": (
        lambda a: a["/api/v2/dags/consumers/tasks"].update(tasks=[{"pool": "launches"}]),
        "Airflow pool launches", CheckResult.FAILED, "airflow pools set launches",
    ),
    "empty pool": (
        lambda a: a["/api/v2/pools/default_pool"].update(slots=0), "Airflow pool default_pool", CheckResult.FAILED, "slots",
    ),
    "slow scheduler": (
        lambda a: a["/api/v2/config"]["sections"][0]["options"][0].update(value="1"),
        "Airflow setting scheduler_idle_sleep_time", CheckResult.WARNING, "set it to 0.1",
    ),
    "hidden settings": (lambda a: a.update({"/api/v2/config": 403}), "Airflow settings", CheckResult.WARNING, "expose_config"),
    "not this API": (lambda a: a.update({"/api/v2/dags": []}), "Airflow DAGs", CheckResult.FAILED, "from 3.2 on"),
    "error of the server": (lambda a: a.update({"/api/v2/assets": 500}), "Airflow watcher", CheckResult.FAILED, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named_with_what_to_do_and_stops_no_other_check(case: str) -> None:
    change, check, result, mend = CASES[case]
    answers = copy.deepcopy(healthy())
    change(answers)
    found, _ = asked(answers)
    one = of(found, check)
    assert one.result is result
    assert mend in one.mend
    assert of(found, "Airflow").result is CheckResult.OK
    assert any(other.check.startswith("Airflow setting") for other in found), "the last check is made"


def test_dags_for_a_budget_and_for_growth_are_asked_for_only_where_they_are_needed() -> None:
    needed = ("approve_plan", "autoscale")
    off = with_dags(dag("approve_plan", paused=True), dag("autoscale", paused=True))
    assert {one.result for one in asked(off)[0]} == {CheckResult.OK}
    found, _ = asked(off, needed=needed)
    told = {name: of(found, f"Airflow DAG {name}") for name in needed}
    assert {one.result for one in told.values()} == {CheckResult.WARNING}
    assert told["approve_plan"].says == (
        "approve_plan is paused: nobody is asked about plans that exceed the budget, so they wait"
    )
    assert told["autoscale"].says == "autoscale is paused: no fleet with limits of growth is looked at"
    assert told["autoscale"].mend == "`airflow dags unpause autoscale`"
    (missing,) = [
        one for one in asked(with_dags(dag("autoscale")), needed=needed)[0] if one.result is not CheckResult.OK
    ]
    assert missing.says.startswith("no DAG of it for cluster main: nobody is asked")


def test_a_run_for_later_that_keeps_no_other_one_waiting_is_not_named() -> None:
    answers = with_dags(dag("autoscale"))
    blocking = {"dag_runs": [ahead("queued", "run_after"), run("success", 20)]}
    answers["/api/v2/dags/consumers/dagRuns"] = answers["/api/v2/dags/autoscale/dagRuns"] = blocking
    (one,) = [one for one in asked(answers, needed=("autoscale",))[0] if one.result is not CheckResult.OK]
    assert (one.check, one.result) == ("Airflow autoscale", CheckResult.WARNING)
    assert "Airflow starts no other one meanwhile" in one.says
    answers["/api/v2/dags"]["dags"][-1]["is_paused"] = True
    assert "Airflow autoscale" not in {one.check for one in asked(answers, needed=("autoscale",))[0]}


def told(ago_s: float | None) -> Answers:
    """A healthy Airflow; the watcher of topics reported a change so long ago (`None` = never)."""
    answers = healthy()
    when = datetime.now(UTC) - timedelta(seconds=ago_s or 0)
    answers["/api/v2/assets"]["assets"][0]["last_asset_event"] = {"timestamp": when.isoformat()} if ago_s else None
    return answers


@pytest.mark.parametrize(
    ("told_ago_s", "changed_ago_s", "result"),
    [
        (100.0, 101.0, CheckResult.OK),
        (305.0, 300.0, CheckResult.FAILED),
        (301.0, 300.0, CheckResult.OK),
        (None, 300.0, CheckResult.FAILED),
        (600.0, 20.0, CheckResult.OK),
        (None, 2 * 86_400.0, CheckResult.OK),
    ],
    ids=[
        *("told", "only the one before told", "clocks apart", "nothing told ever", "just now", "events were cleaned"),
    ],
)
def test_a_silent_watcher_does_not_run(told_ago_s: float | None, changed_ago_s: float, result: CheckResult) -> None:
    found, _ = asked(told(told_ago_s), changed={"topics": time.time() - changed_ago_s})
    one = of(found, "Airflow watcher of topics")
    assert one.result is result
    assert of(found, "Airflow watcher of fleet").result is CheckResult.OK
    if result is CheckResult.FAILED:
        assert "it has not told what changed in ZooKeeper 300 s ago" in one.says
        assert "restart the triggerer" in one.mend


@pytest.mark.parametrize(
    ("executor", "value", "result"),
    [
        ("CeleryExecutor", "600.0", CheckResult.WARNING),
        ("CeleryExecutor", "90", CheckResult.OK),
        ("LocalExecutor", "600.0", CheckResult.OK),
    ],
)
def test_a_task_of_a_dead_celery_worker_waits_less_than_10_min(executor: str, value: str, result: CheckResult) -> None:
    answers = healthy()
    answers["/api/v2/config"]["sections"] += [
        {"name": "core", "options": [{"key": "executor", "value": executor}]},
        {"name": "scheduler", "options": [{"key": "task_queued_timeout", "value": value}]},
    ]
    found, _ = asked(answers)
    assert {one.result for one in found if one.check.startswith("Airflow setting")} == {result}


def test_connections_may_stand_elsewhere_than_in_the_database() -> None:
    answers = healthy()
    del answers["/api/v2/connections/kafka_default"]
    one = of(asked(answers)[0], "Airflow connection kafka_default")
    assert one.result is CheckResult.OK
    assert "it may be in the environment or in a secrets backend" in one.says


def test_an_airflow_that_does_not_answer_or_refuses_the_log_in_is_one_finding() -> None:
    (one,) = asked({})[0]
    assert (one.check, one.result) == ("Airflow", CheckResult.FAILED)
    *health, refused = asked(healthy() | {"/auth/token": 401})[0]
    assert len(health) == 4
    assert (refused.check, refused.result) == ("Airflow", CheckResult.FAILED)
    assert "correct the log-in" in refused.says


def test_an_answer_of_any_size_is_not_read_to_its_end() -> None:
    endless = iter(lambda: b"[" * 65_536, None)
    found, _ = asked(healthy() | {"/api/v2/plugins": endless})
    unread = next(one for one in found if "has more than 16777216 bytes" in one.says)
    assert unread.result is not CheckResult.OK
    assert of(found, "Airflow connection zookeeper_default").result is CheckResult.OK


def test_an_answer_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_tasks.doctor.airflow.LIMIT_S", 0.0)
    found, _ = asked(healthy() | {"/api/v2/plugins": iter(lambda: b" ", None)})
    assert "does not end within 0 s" in found[0].says


def test_a_value_that_somebody_else_wrote_is_one_short_line() -> None:
    answers = healthy()
    answers["/api/v2/connections/kafka_default"] = {"host": "a\n\x1b[31m" + "b" * 5000}
    says = of(asked(answers)[0], "Airflow connection kafka_default").says
    assert says.isprintable()
    assert len(says) < 300


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("airflow:8080", {TOKEN: "t"}),
        ("http://HOST:PORT", {TOKEN: "t"}),
        ("http://airflow:8080", {}),
        ("http://airflow:8080", {TOKEN: "secret\n"}),
    ],
)
def test_an_address_or_a_log_in_that_cannot_be_is_refused(url: str, environ: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as refused:
        Api(url, environ)
    assert "secret" not in str(refused.value)
