"""The checks of Airflow, by its public API (v2): running, paused and missing DAGs, and slow settings.

The address of Airflow in a browser also serves the API. The checks only read.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from coordinator_tasks.core.errors import BadSettings, CoordinatorError, NoAccess, NodeMissing, Unavailable
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.doctor.findings import CheckResult, DoctorFinding, broken, failure, good, warning
from coordinator_tasks.status_tokens import is_token

LIMIT_S = 10.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
CLOCKS_S = 1.0
TOLD_WITHIN_S = 60.0
"""Seconds within which the watcher should report a change: usually much less, but a busy Airflow may store it later."""
SKEW_S = 2.0
"""Maximum difference between ZooKeeper's and Airflow's clocks. A larger difference is a finding of its own."""
DAY_S = 86_400.0
RECENT_S = 300.0  # `reconcile` runs every minute
PLUGIN = "coordinator"
DAGS = {"rebalance": True, "reconcile": True, "consumers": False, "stuck_topic": False}
"""Plain id of a DAG → whether plans are made only with this DAG."""
ON_DEMAND = {
    "approve_plan": "nobody is asked about plans that exceed the budget, so they wait",
    "autoscale": "no fleet with limits of growth is looked at",
}
"""Plain id of an optional DAG → what does not happen without the DAG."""
BLOCKED_BY: Mapping[str, Collection[str]] = {
    "reconcile": ("queued", "running"),
    "autoscale": ("queued", "running"),
    "consumers": ("running",),  # if a run is queued, `reconcile` still starts another
}
"""Plain id of a DAG that has one run at a time → states in which a run with a future date prevents another run."""
CONNECTIONS = ("zookeeper_default", "kafka_default")
USER, PASSWORD, TOKEN = "COORDINATOR_AIRFLOW_USER", "COORDINATOR_AIRFLOW_PASSWORD", "COORDINATOR_AIRFLOW_TOKEN"
_SERVICES = {
    "metadatabase": "start Airflow's database",
    "scheduler": "start `airflow scheduler`: without it no task runs",
    "dag_processor": "start `airflow dag-processor`: without it no DAG is read",
    "triggerer": "start `airflow triggerer`: without it waits, questions and the watcher of ZooKeeper stand still",
}
_SLOW: dict[tuple[str, str], tuple[Callable[[str], bool], str]] = {
    ("core", "lazy_load_plugins"): (lambda value: value.lower() == "false", "False"),
    ("scheduler", "scheduler_idle_sleep_time"): (lambda value: float(value) <= 0.5, "0.1"),
    ("scheduler", "task_instance_heartbeat_timeout"): (lambda value: float(value) <= 120, "60"),
    ("workers", "execution_api_timeout"): (lambda value: float(value) >= 15, "30"),
    ("core", "parallelism"): (lambda value: int(value) >= 4, "8 or more"),
}
"""Section and option → a check whether the value is fast enough, and a fast value."""
_SLOW_WITH_CELERY: dict[tuple[str, str], tuple[Callable[[str], bool], str]] = {
    ("scheduler", "task_queued_timeout"): (
        lambda value: float(value) < 600,
        "a little more than a task ever waits for a worker: a task that a dead worker had taken waits so long",
    )
}
_UNANSWERED = (CoordinatorError, AttributeError, KeyError, TypeError, ValueError)
"""There was no answer, or its shape is not the API's."""
Json = Any


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """ZooKeeper's facts about a cluster, for comparison.

    `needed`: the DAGs of `ON_DEMAND` that the cluster needs. `changed`: asset of a watcher (`topics`, `fleet`) → when a
    change was last made, by ZooKeeper's clock; missing if unknown.
    """

    needed: Collection[str] = ()
    changed: Mapping[str, float] = field(default_factory=dict)


class Api:
    """The API of one Airflow. `environ` has a token, or user and password; `BadSettings` if they are unusable.

    An answer has at most `MAX_ANSWER_BYTES` and takes about `LIMIT_S`, not counting the first wait. Otherwise
    `Unavailable` is raised.
    """

    def __init__(
        self, url: str, environ: Mapping[str, str] = os.environ, transport: httpx.BaseTransport | None = None
    ) -> None:
        if not _is_address(url):
            raise BadSettings(f"--airflow {url[:80]!r} is no address; give it as http://HOST:8080 or https://HOST")
        if not environ.get(TOKEN) and not environ.get(USER):
            raise BadSettings(f"Airflow's API needs a log-in; set {TOKEN}, or {USER} and {PASSWORD}")
        if not is_token(environ.get(TOKEN, "")):  # a wrong token would be shown in the client's error
            raise BadSettings(
                f"{TOKEN} has a character that an HTTP header does not take, such as a line break; set the token alone"
            )
        self.url = url.rstrip("/")
        self.apart_s = 0.0  # least difference between the clocks of api-server and this host, by the last answer
        self._environ = environ
        plain = {"Accept-Encoding": "identity"}  # a compressed answer could expand to any size
        self._http = httpx.Client(base_url=self.url, headers=plain, timeout=LIMIT_S, transport=transport)

    def close(self) -> None:
        self._http.close()

    def sign_in(self) -> None:
        """Log in with the token, or else with a token that Airflow issues for user and password."""
        token = self._environ.get(TOKEN, "")
        if not token:
            who = {"username": self._environ[USER], "password": self._environ.get(PASSWORD, "")}
            token = str(self._sent("POST", "/auth/token", json=who)["access_token"])
        self._http.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, **query: str | int | list[str]) -> Json:
        """Return the decoded answer of a GET below `/api/v2`."""
        return self._sent("GET", f"/api/v2{path}", params=query, headers={"Accept": "application/json"})

    def _sent(self, method: str, path: str, **options: Any) -> Json:
        try:
            asked_at = time.time()
            with self._http.stream(method, path, **options) as answer:
                self._compare_clocks(answer.headers.get("date", ""), asked_at, time.time())
                if answer.status_code in (401, 403):
                    raise NoAccess(
                        f"Airflow refuses {path} to this user: give it the right to read it, or correct the log-in"
                    )
                if answer.status_code == 404:
                    raise NodeMissing(f"Airflow at {self.url} has no {path}")
                answer.raise_for_status()
                return json.loads(_body(answer))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            said = _line(error) or type(error).__name__
            raise Unavailable(
                f"Airflow at {self.url} gave no answer to {path} ({said}); check that it runs there"
            ) from error

    def _compare_clocks(self, date: str, asked_at: float, answered_at: float) -> None:
        """Compare our clock with the header `Date` of an answer, which has whole seconds."""
        with suppress(ValueError, TypeError):
            at = parsedate_to_datetime(date).timestamp()
            self.apart_s = max(asked_at - (at + 1.0), at - answered_at, 0.0)


def examine(api: Api, cluster: str, look: Callable[[], ClusterFacts] = ClusterFacts) -> Iterator[DoctorFinding]:
    """Yield the findings of all checks of a cluster in this Airflow. A missing answer stops no other check.

    `look`: returns ZooKeeper's facts about the cluster.
    """
    with closing(api) as asked:
        try:
            yield from _health(asked)
            asked.sign_in()
            version = _line(asked.get("/version")["version"])
        except NoAccess as error:
            yield broken("Airflow", error)
            return
        except _UNANSWERED as error:
            yield _unanswered("Airflow", error)
            return
        yield good("Airflow", f"{asked.url} answers; version {version}")
        yield _clocks(asked)
        site = look()
        found: dict[str, Json] = {}
        parts: tuple[tuple[str, Callable[[], Iterator[DoctorFinding]]], ...] = (
            ("Airflow plugin", lambda: _plugin(asked)),
            ("Airflow DAGs", lambda: _dags(asked, cluster, found, site.needed)),
            ("Airflow reconcile", lambda: _reconcile(asked, found)),
            ("Airflow runs", lambda: _others_blocked(asked, found)),
            ("Airflow watcher", lambda: _watchers(asked, cluster, site.changed)),
            ("Airflow pools", lambda: _pools(asked, found)),
            ("Airflow connections", lambda: _connections(asked)),
            ("Airflow settings", lambda: _settings(asked)),
        )
        for check, part in parts:
            try:
                yield from part()
            except _UNANSWERED as error:
                yield _unanswered(check, error)


def _is_address(url: str) -> bool:
    try:
        httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return url.startswith(("http://", "https://"))


def _body(answer: httpx.Response) -> bytes:
    """Return the body. Raises `ValueError` if the answer is too long or does not end."""
    found, until = bytearray(), time.monotonic() + LIMIT_S
    for part in answer.iter_raw():
        found += part
        if len(found) > MAX_ANSWER_BYTES:
            raise ValueError(f"its answer has more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > until:
            raise ValueError(f"its answer does not end within {LIMIT_S:g} s")
    return bytes(found)


def _unanswered(check: str, error: Exception) -> DoctorFinding:
    if isinstance(error, NoAccess):
        said = str(error).rpartition("; ")[0] or error
        return replace(broken(check, error, CheckResult.WARNING), says=f"not checked: {said}")
    if isinstance(error, CoordinatorError):
        return broken(check, error)
    return failure(check, "the answer is not that of Airflow's API v2", "give the address of an Airflow from 3.2 on")


def _line(text: object) -> str:
    """Return another program's text, shortened to one line."""
    return " ".join("".join(one if one.isprintable() else " " for one in str(text)[:2000]).split())[:200]


def _health(api: Api) -> Iterator[DoctorFinding]:
    said = api.get("/monitor/health")
    for service, mend in _SERVICES.items():
        status = (said.get(service) or {}).get("status")
        if status == "healthy":
            yield good(f"Airflow {service}", "it is healthy")
        else:
            yield failure(f"Airflow {service}", f"it is {_line(status or 'not there')}", mend)


def _plugin(api: Api) -> Iterator[DoctorFinding]:
    names = [one["name"] for one in api.get("/plugins", limit=1000)["plugins"]]
    if PLUGIN in names:
        yield good("Airflow plugin", "the api-server has it: pages and links are there")
    else:
        mend = "install the wheel beside Airflow, or put plugins/ into its plugins folder, and restart the api-server"
        yield failure("Airflow plugin", "the api-server does not have it", mend)
    errors = [_line(one["filename"]) for one in api.get("/importErrors", limit=100)["import_errors"]]
    if errors:
        yield warning("Airflow DAG files", f"not read: {shown(errors)}", "see Airflow's first page for each error")


def _dags(api: Api, cluster: str, found: dict[str, Json], needed: Collection[str]) -> Iterator[DoctorFinding]:
    """Yield findings about the cluster's DAGs, and fill `found`: plain id → DAG."""
    wanted = DAGS | dict.fromkeys(needed, False)
    for dag in api.get("/dags", limit=1000, tags=["coordinator", cluster], tags_match_mode="all")["dags"]:
        for name in wanted:
            if dag["dag_id"].removesuffix(f"__{cluster}").endswith(name):
                found[name] = dag
    for name, vital in wanted.items():
        check = f"Airflow DAG {name}"
        worst = CheckResult.FAILED if vital else CheckResult.WARNING
        if name not in found:
            says = f"no DAG of it for cluster {cluster}{_without(name)}"
            mend = "add the cluster to COORDINATOR_CLUSTERS of Airflow's services, and see its import errors"
            yield DoctorFinding(check, worst, says, mend)
        elif found[name]["is_paused"]:
            says = f"{found[name]['dag_id']} is paused{_without(name)}"
            yield DoctorFinding(check, worst, says, f"`airflow dags unpause {found[name]['dag_id']}`")
        else:
            yield good(check, f"{found[name]['dag_id']} is on")


def _without(name: str) -> str:
    return f": {ON_DEMAND[name]}" if name in ON_DEMAND else ""


def _reconcile(api: Api, found: Mapping[str, Json]) -> Iterator[DoctorFinding]:
    """Check the newest runs. A successful run proves that both connections, a worker and the plugin work."""
    if "reconcile" not in found or found["reconcile"]["is_paused"]:
        return
    check, runs = "Airflow reconcile", _newest_runs(api, found["reconcile"])
    if blocked := _blocked("reconcile", runs, CheckResult.FAILED):
        yield blocked
        return
    ended = [one for one in runs if one["state"] in ("success", "failed") and one["end_date"]]
    if not ended:
        yield warning(check, "it has not run to its end yet", "wait a minute, and see its runs")
        return
    last = max(ended, key=lambda one: datetime.fromisoformat(one["end_date"]))
    ago_s = (datetime.now(UTC) - datetime.fromisoformat(last["end_date"])).total_seconds()
    says = f"its last run ended as {_line(last['state'])} {ago_s:.0f} s ago"
    if last["state"] == "failed":
        mend = "see the log of its task `look`: it names the connection or the right that is missing"
        yield failure(check, says, mend)
    elif ago_s > RECENT_S:
        mend = "see whether scheduler and workers have free slots"
        yield failure(check, f"{says}, and it is due every minute", mend)
    else:
        yield good(check, says)


def _others_blocked(api: Api, found: Mapping[str, Json]) -> Iterator[DoctorFinding]:
    for name in BLOCKED_BY:
        if name == "reconcile" or name not in found or found[name]["is_paused"]:
            continue
        if blocked := _blocked(name, _newest_runs(api, found[name]), CheckResult.WARNING):
            yield blocked


def _newest_runs(api: Api, dag: Json) -> list[Json]:
    path = f"/dags/{quote(dag['dag_id'], safe='')}/dagRuns"
    return list(api.get(path, limit=10, order_by="-run_after")["dag_runs"])


def _blocked(name: str, runs: Collection[Json], result: CheckResult) -> DoctorFinding | None:
    """Return a finding if a run of this DAG waits for a future date, and so keeps Airflow from starting another run."""
    states = BLOCKED_BY[name]
    waiting = [one for one in runs if one["state"] in states and _begins(one) > time.time()]
    if not waiting:
        return None
    says = f"its run {_line(waiting[0]['dag_run_id'])} waits for a date in the future, and Airflow starts no other one meanwhile"
    return DoctorFinding(f"Airflow {name}", result, says, "mark that run as failed in Airflow")


def _begins(run: Mapping[str, Json]) -> float:
    """Return when Airflow may start the run, in seconds since 1970: after both of its dates."""
    dates = [run[name] for name in ("run_after", "logical_date") if run.get(name)]
    return max((datetime.fromisoformat(one).timestamp() for one in dates), default=0.0)


def _clocks(api: Api) -> DoctorFinding:
    if api.apart_s <= CLOCKS_S:
        return good("Airflow clock", f"the api-server and this host are at most {CLOCKS_S:g} s apart")
    says = f"the api-server and this host are {api.apart_s:.0f} s apart: times on the pages and waiting times count wrongly"
    return warning("Airflow clock", says, "synchronize the clocks (NTP) of all hosts")


def _watchers(api: Api, cluster: str, changed: Mapping[str, float]) -> Iterator[DoctorFinding]:
    """Yield a finding for each watcher of ZooKeeper.

    Airflow gives a watcher its trigger once a DAG that follows the asset is on. Then a triggerer runs the trigger. The
    API does not tell whether the trigger runs now, but the trigger reports each change in ZooKeeper, also changes
    during its downtime.
    """
    for scope in ("topics", "fleet"):
        name = f"zookeeper_{cluster}_{scope}"
        assets = [one for one in api.get("/assets", name_pattern=name, limit=100)["assets"] if one["name"] == name]
        check = f"Airflow watcher of {scope}"
        if not assets or not assets[0]["watchers"]:
            mend = "turn its DAG on, and restart the dag-processor; until then only `reconcile` finds changes, within a minute"
            yield failure(check, f"nothing watches ZooKeeper for asset {name}", mend)
            continue
        last = (assets[0].get("last_asset_event") or {}).get("timestamp")
        told_at = datetime.fromisoformat(last).timestamp() if last else 0.0
        at, now = changed.get(scope, 0.0), time.time()
        known = last or now - at < DAY_S  # otherwise Airflow may have deleted old events
        if known and told_at < at - SKEW_S and now - at > TOLD_WITHIN_S:
            yield failure(
                check,
                f"it has not told what changed in ZooKeeper {now - at:.0f} s ago; last change told: {_line(last or 'none')}",
                "restart the triggerer, and see its log for `holding:`: it has no connection to ZooKeeper, or no free slot "
                "([triggerer] capacity); until then only `reconcile` finds changes, within a minute",
            )
            continue
        yield good(check, f"a trigger watches it; last change told: {_line(last or 'none yet')}")


def _pools(api: Api, found: Mapping[str, Json]) -> Iterator[DoctorFinding]:
    """Yield findings about pools: Airflow never runs a task whose pool is missing."""
    pools: dict[str, str] = {}
    for name, dag in found.items():
        for task in api.get(f"/dags/{quote(dag['dag_id'], safe='')}/tasks")["tasks"]:
            pools.setdefault(task["pool"] or "default_pool", name)
    for pool, name in sorted(pools.items()):
        check = f"Airflow pool {_line(pool)}"
        try:
            said = api.get(f"/pools/{quote(pool, safe='')}")
        except NodeMissing:
            mend = f"`airflow pools set {_line(pool)} 8 coordinator`"
            yield failure(check, f"tasks of {name} need it, and it is not there", mend)
            continue
        slots, waiting = said["slots"], said["queued_slots"]
        if slots > 0 or slots == -1:
            yield good(check, f"{slots} slots, {said['open_slots']} open, {waiting} tasks wait")
        else:
            yield failure(check, f"it has {slots} slots: no task of {name} ever runs", "give it slots")


def _connections(api: Api) -> Iterator[DoctorFinding]:
    for name in CONNECTIONS:
        check = f"Airflow connection {name}"
        try:
            said = api.get(f"/connections/{name}")
            yield good(check, f"it is in Airflow's database; host {_line(said.get('host') or 'in its extra')}")
        except NodeMissing:
            says = "not in Airflow's database; it may be in the environment or in a secrets backend"
            yield good(check, f"{says}: whether it works is shown by reconcile")


def _settings(api: Api) -> Iterator[DoctorFinding]:
    """Check the settings of Airflow that docs/operations.md lists."""
    try:
        sections = api.get("/config")["sections"]
    except NoAccess:
        mend = "set [api] expose_config to non-sensitive-only, or compare them with docs/operations.md (Airflow's own settings)"
        yield warning("Airflow settings", "not checked: this Airflow does not show its configuration", mend)
        return
    given = {(one["name"], option["key"]): _line(option["value"]) for one in sections for option in one["options"]}
    slow = []
    celery = "celery" in given.get(("core", "executor"), "").lower()
    for place, (quick, better) in (_SLOW | _SLOW_WITH_CELERY if celery else _SLOW).items():
        try:
            if place in given and not quick(given[place]):
                slow.append((place, better))
        except ValueError:
            continue  # the API hides the value
    for (section, key), better in slow:
        says = f"[{section}] {key} is {given[section, key]}: transitions take longer"
        yield warning(f"Airflow setting {key}", says, f"set it to {better}")
    if not slow:
        yield good("Airflow settings", "none of those that slow transitions down")
