# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the routes.
"""The addresses of the pages. Each address checks the user as Airflow does, and accepts only GET."""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from coordinator_plugin.clusters import cluster as find_cluster
from coordinator_plugin.clusters import dag_id as named_here
from coordinator_plugin.forms import FORMS
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from sqlalchemy import select
from starlette.exceptions import HTTPException as AnyHTTPException

from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged, Refused
from coordinator_tasks.core.model import Actor
from coordinator_tasks.core.names import MAX_ID_BYTES, MAX_TOPIC_CHARS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.history import Rebalance
from coordinator_tasks.service.watch.consumer_pages import ConsumerPages
from coordinator_ui.access import (
    REBALANCE,
    NotReadable,
    OfCluster,
    Readable,
    ReadableCluster,
    UserAccess,
    action_of_dag,
    cluster_of_dag,
    named_cluster,
)
from coordinator_ui.data import live, page_data, rebalance_search, timeline
from coordinator_ui.data.api_json import rebalance_row, rebalance_whole
from coordinator_ui.data.audits import FRESH_S, audit_data, audited
from coordinator_ui.data.health import health, rows
from coordinator_ui.data.letters import LetterReader
from coordinator_ui.data.reading import ClusterReader, SharedAnswers, each
from coordinator_ui.data.rebalance_search import RebalanceFilter, Sides
from coordinator_ui.data.task_times import task_spans
from coordinator_ui.data.timeline import TaskSpan
from coordinator_ui.data.trends import Point, Trend, Trends
from coordinator_ui.pages import action_list, letter_pages
from coordinator_ui.pages.choices import choices
from coordinator_ui.pages.form_fields import form_of, query_of
from coordinator_ui.pages.rebalance_list import Asked, stories, wanted_of
from coordinator_ui.pages.render import data, page, script
from coordinator_ui.pages.shell import SHELL_AFTER_S, answered
from coordinator_ui.texts.rebalance_text import Story, only, tell

SHOWN = 20
MOST_SHOWN = 500
LISTS_LIMIT_S = 2.0
"""Seconds that a form waits for its choices. A form that waits longer is shown without choices."""
MOST_SERIES = 12
MOST_CLUSTERS = 20
LIVE_SCRIPTS = ("uPlot", "live")
STATUSES: Mapping[type[CoordinatorError], HTTPStatus] = {
    NotManaged: HTTPStatus.NOT_FOUND,
    Refused: HTTPStatus.BAD_REQUEST,
    Malformed: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The first match counts. Any other error usually passes by itself."""
FILTERS = ("topic", "consumer", "cause", "actor", "after", "before")
ASKED_FILTERS = ("about", "action", "actor", "after", "before")
MOST_CHANGES = 3
"""Changed fields to show in a row. The others are folded."""
T = TypeVar("T")

API = "/api/v1"
"""Path of the data API."""
router = APIRouter(default_response_class=HTMLResponse, dependencies=[Depends(named_cluster)])
data_router = APIRouter(prefix=API, default_response_class=JSONResponse, dependencies=[Depends(named_cluster)])
"""The data API: the pages' data for programs."""
code_router = APIRouter()
"""Scripts without data, for every signed-in user."""
Limit = Annotated[int, Query(ge=1, le=MOST_SHOWN)]
Topic = Annotated[str, Query(max_length=MAX_TOPIC_CHARS)]
Filter = Annotated[RebalanceFilter, Depends(wanted_of)]
AskedFilter = Annotated[action_list.ActionFilter, Depends(action_list.wanted_of)]


def make_app(reader: ClusterReader | None = None, shell_after_s: float = SHELL_AFTER_S) -> FastAPI:
    """Return the application, without FastAPI's documentation pages, which anyone could read."""
    app = FastAPI(title="Coordinator", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.reader, app.state.shell_after_s = reader or ClusterReader(), shell_after_s
    app.state.task_spans, app.state.letters = task_spans, LetterReader()
    app.state.trends, app.state.shared, app.state.audits = Trends(), SharedAnswers(), SharedAnswers(FRESH_S)
    app.include_router(router)
    app.include_router(data_router)
    app.include_router(code_router)
    app.include_router(letter_pages.router)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(CoordinatorError, _failed)
    return app


@router.get("/")
@router.get("/clusters/{cluster}")
async def overview(request: Request, cluster: OfCluster, readable: Readable, find: Topic = "") -> Response:
    """Show the topics and the consumers of a cluster, and the last moves."""

    async def read() -> dict[str, Any]:
        found = await _read(request, cluster, lambda c: page_data.cluster_page(c, find))
        recent = [tell(one, found.now) for one in found.recent]
        rows = {"topic_rows": found.topic_rows, "consumer_rows": found.consumer_rows}
        return {"found": found, "recent": recent, **rows}

    return await answered(request, "overview.html", read, cluster=cluster, clusters=readable, live=True)


@router.get("/clusters/{cluster}/topics/{topic}")
async def topic(request: Request, cluster: OfCluster, topic: str, limit: Limit = SHOWN) -> Response:
    """Show the owner of each partition of a topic, and the topic's rebalances."""

    async def read() -> dict[str, Any]:
        found = await _read(request, cluster, lambda c: page_data.topic_page(c, topic, limit))
        if found.summary.problem and not found.rebalances and not found.problem:
            raise HTTPException(404, found.summary.problem)
        stories = [tell(one, found.now) for one in found.rebalances]
        more = min(limit * 5, MOST_SHOWN) if found.more and limit < MOST_SHOWN else 0
        return {"found": found, "stories": stories, "more": more}

    return await answered(request, "topic.html", read, cluster=cluster, topic=topic, live=True)


async def _whole(
    request: Request, cluster: ReadableCluster, topic: str, rebalance: str, now: float
) -> tuple[Story, Sides, tuple[TaskSpan, ...], Mapping[str, ConsumerPages]]:

    def read(c: Coordinator) -> tuple[Rebalance, Sides, Mapping[str, ConsumerPages]]:
        found = history.named(c, rebalance, topic)
        return found, rebalance_search.sides(c, found), page_data.consumer_pages(c, found)

    found, sides, links = await _read(request, cluster, read)
    tasks = await run_in_threadpool(request.app.state.task_spans, find_cluster(cluster).dag_id(REBALANCE), found.runs)
    return tell(found, now), sides, tasks, links


@router.get("/clusters/{cluster}/topics/{topic}/rebalances/{rebalance}")
async def rebalance(request: Request, cluster: OfCluster, topic: str, rebalance: str) -> HTMLResponse:
    """Show a rebalance: moves and pauses, awaited consumers, and each step."""
    now = time.time()
    story, sides, tasks, links = await _whole(request, cluster, topic, rebalance, now)
    charts = (timeline.handoffs(story, tasks, now), timeline.whole(story, tasks, now))
    values: dict[str, Any] = {"topic": topic, "story": story, "sides": sides, "links": links, "charts": charts}
    return page(request, "rebalance.html", cluster=cluster, live=not story.ended_at, **values)


@data_router.get("/clusters/{cluster}/topics/{topic}/rebalances/{rebalance}")
async def rebalance_data(request: Request, cluster: OfCluster, topic: str, rebalance: str) -> Response:
    """Return a rebalance, with all data that the page shows."""
    return data(rebalance_whole(cluster, *await _whole(request, cluster, topic, rebalance, time.time())))


@router.get("/rebalances")
async def rebalances(request: Request, asked: Asked, wanted: Filter) -> Response:
    """Show the rebalances of all clusters that the user may read, newest first."""
    now = time.time()

    async def read() -> dict[str, Any]:
        return {"found": await stories(asked, wanted, now)}

    values: dict[str, Any] = {"asked": _given(request, FILTERS), "rest": asked.rest, "now": now}
    return await answered(request, "rebalances.html", read, cluster="", live=not asked.rest, **values)


@data_router.get("/rebalances")
async def rebalances_data(asked: Asked, wanted: Filter) -> Response:
    """Return the rebalances of all clusters that the user may read, newest first."""
    found = await stories(asked, wanted, time.time())
    rows = [rebalance_row(name, story) for name, story in found.found]
    return data({"rebalances": rows, "rest": found.rest or None, "problems": list(found.problems)})


@router.get("/actions")
async def actions(request: Request, asked: Asked, wanted: AskedFilter) -> Response:
    """Show persons' actions in all clusters that the user may read, newest first."""

    async def read() -> dict[str, Any]:
        return {"found": await action_list.listed(asked, wanted), "most_changes": MOST_CHANGES}

    values: dict[str, Any] = {"asked": _given(request, ASKED_FILTERS), "rest": asked.rest, "now": time.time()}
    return await answered(request, "actions.html", read, cluster="", live=not asked.rest, **values)


@data_router.get("/actions")
async def actions_data(asked: Asked, wanted: AskedFilter) -> Response:
    """Return persons' actions in all clusters that the user may read, newest first."""
    found = await action_list.listed(asked, wanted)
    rows = [action_list.asked_row(name, one) for name, one in found.found]
    return data({"actions": rows, "rest": found.rest or None, "problems": list(found.problems)})


def _given(request: Request, names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in request.query_params.items() if name in names and value.strip()}


@router.get("/live")
@router.get("/clusters/{cluster}/live")
async def live_page(request: Request, cluster: OfCluster, readable: Readable) -> HTMLResponse:
    """Show topics, partitions and consumers of a cluster, updated every few seconds.

    The page appears at once, because it reads nothing itself: its script fetches `live_data` again and again.
    """
    return page(request, "live.html", scripts=LIVE_SCRIPTS, cluster=cluster, clusters=readable, live=False)


@router.get("/clusters/{cluster}/ask/{action}")
async def ask(request: Request, cluster: OfCluster, action: str) -> Response:
    """Show the form of an action, with fields filled in from the address. Only the form's button requests a run."""

    async def read() -> dict[str, Any]:
        try:
            offered = await asyncio.wait_for(_read(request, cluster, choices), LISTS_LIMIT_S)
        except (CoordinatorError, TimeoutError):
            offered = {}  # a person can type the values
        return {"form": form_of(action, request.query_params, offered)}

    empty = form_of(action, request.query_params, {})
    return await answered(request, "ask.html", read, scripts=("ask",), cluster=cluster, form=empty, live=False)


@data_router.get("/clusters/{cluster}/live")
async def live_data(
    request: Request,
    cluster: OfCluster,
    topic: Topic = "",
    shown: Annotated[str | None, Query(max_length=MAX_TOPIC_CHARS)] = None,
    consumer: Annotated[str, Query(max_length=MAX_ID_BYTES)] = "",
    find: Topic = "",
) -> Response:
    """Return topics, partitions and consumers now. With `shown`, only what the live page shows; see `live.part`."""
    seen, found = await _live(request, cluster, topic)
    answer = live.whole(found) if shown is None else live.part(found, shown, consumer, find)
    return data({**answer, "health": rows(seen)})


@data_router.get("/clusters/{cluster}/trend")
async def trend_data(
    request: Request,
    cluster: OfCluster,
    topic: Topic = "",
    partition: Annotated[int | None, Query(ge=0)] = None,
    consumer: Annotated[str, Query(max_length=MAX_ID_BYTES)] = "",
) -> Response:
    """Return the lag of the last hour: by owner for a topic or a partition, by topic for a consumer."""
    trends: Trends = request.app.state.trends

    def read(c: Coordinator) -> tuple[Trend, dict[str, list[Point]]]:
        trend = trends.of(c)
        return trend, trend.of_consumer(consumer) if consumer else trend.of_topic(topic, partition)

    trend, series = await _read(request, cluster, read)
    shown = sorted(series.items(), key=lambda one: (-one[1][-1].at, -max(p.lag for p in one[1]), one[0]))[:MOST_SERIES]
    points = [
        {
            "name": name,
            "at": [p.at for p in one],
            "lag": [p.lag for p in one],
            "late_s": [p.late_s for p in one],
            "read": [None if p.read is None else round(p.read, 1) for p in one],
        }
        for name, one in shown
    ]
    asked = {"topic": topic, "partition": partition, "consumer": consumer}
    left_out = len(series) - len(shown)
    return data({**asked, "series": points, "left_out": left_out, "problems": list(trend.problems)})


@router.get("/audit")
@router.get("/clusters/{cluster}/audit")
async def audit(request: Request, cluster: OfCluster, readable: Readable, topic: Topic = "") -> Response:
    """Show the ownership by ZooKeeper, by the consumers' reports, and by the commits in Kafka."""

    async def read() -> dict[str, Any]:
        return {"found": await audited(request, cluster, topic)}

    return await answered(request, "audit.html", read, cluster=cluster, clusters=readable, topic=topic, live=True)


@data_router.get("/clusters/{cluster}/audit")
async def audit_json(request: Request, cluster: OfCluster, topic: Topic = "") -> Response:
    """Return the ownership audit of a cluster, or of one topic."""
    return data(audit_data(cluster, topic, await audited(request, cluster, topic)))


@code_router.get("/tile.js", dependencies=[Depends(get_user)])
async def tile() -> Response:
    """Return the script of the tile on Airflow's home page. It has no data, so any signed-in user may load it."""
    return script("tile")


@data_router.get("/summary")
async def summary_data(request: Request, readable: Readable) -> Response:
    """Return the tile's data: what needs a person now, in all clusters that the user may read."""
    names = readable[:MOST_CLUSTERS]
    answers = await each(names, (_live(request, name, "") for name in names))
    found = [
        {"cluster": name, "problem": one.told}
        if isinstance(one, CoordinatorError)
        else live.summary(one[0]) | {"health": rows(one[0])}
        for name, one in answers.items()
    ]
    return data({"clusters": found})


async def _live(request: Request, cluster: ReadableCluster, topic: str) -> tuple[live.Now, dict[str, Any]]:
    """Return a look, which all viewers at this time share."""
    state = request.app.state

    async def make() -> tuple[live.Now, dict[str, Any]]:
        return await _read(request, cluster, lambda c: live.look(c, topic, state.trends))

    shared: SharedAnswers = state.shared
    return await shared.get(f"{cluster} {topic}", make)


def run_times(dag_id: str, run_id: str, session: SessionDep) -> tuple[float, float]:
    """Return begin and end of an Airflow run; 0 if not yet known.

    Used as a dependency, because FastAPI runs dependencies outside its event loop.
    """
    times = select(DagRun.start_date, DagRun.end_date).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    began, ended = session.execute(times).one_or_none() or (None, None)
    return began.timestamp() if began else 0.0, ended.timestamp() if ended else 0.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of an action's run. `lines`: its output. `over`: the run has ended. `ok`: it has no error.

    `done`: the first task, which runs the action, has ended without an error. `conf`: the run's parameters.
    """

    lines: tuple[str, ...] = ()
    dry_run: bool = True
    over: bool = False
    ok: bool = False
    done: bool = False
    conf: Mapping[str, Any] = field(default_factory=dict)


def run_result(dag_id: str, run_id: str, session: SessionDep) -> RunResult | None:
    """Return the result of a run of an action's DAG; `None` for any other run.

    Reads nothing else from Airflow's database.
    """
    action = action_of_dag(dag_id)
    if action is None:
        return None
    run = select(DagRun.state, DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    state, conf = session.execute(run).one_or_none() or ("", {})
    said = select(XComModel.value).where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.task_id == action,
        XComModel.key == "return_value",
    )
    lines = session.execute(said).scalars().first()
    with suppress(ValueError, RecursionError):
        # The storage format depends on the writer of the value, and any task may write it.
        lines = json.loads(lines) if isinstance(lines, str) else lines
    lines = lines if isinstance(lines, list | None) else [lines]
    conf = conf if isinstance(conf, dict) else {}
    over, ok = str(state) in ("success", "failed"), str(state) == "success"
    dry_run, done = conf.get("dry_run", True) is not False, lines is not None
    # Half of a surrogate pair, which JSON allows and a page does not.
    shown = (str(line).encode(errors="backslashreplace").decode() for line in lines or ())
    return RunResult(tuple(shown), dry_run, over, ok, done, conf)


ActionResult = Annotated[RunResult | None, Depends(run_result)]


def cluster_of_run(dag_id: str, result: ActionResult, access: UserAccess) -> ReadableCluster | None:
    """Return the cluster of a run; `None` if the site lacks it. Answers 403 if the user may not read the cluster."""
    if result is None:
        name = cluster_of_dag(dag_id)
        return access.cluster(name) if name else None
    try:
        return access.cluster(str(result.conf.get("cluster") or ""))
    except NotReadable:
        raise
    except HTTPException:  # the site no longer has the cluster
        return None


OfRun = Annotated[ReadableCluster | None, Depends(cluster_of_run)]
Times = Annotated[tuple[float, float], Depends(run_times)]


@router.get("/runs/{dag_id}/{run_id:path}")
async def run(
    request: Request, dag_id: str, run_id: str, cluster: OfRun, times: Times, result: ActionResult
) -> Response:
    """Show the moves of a `rebalance` run, or the result of an action's run, in the run's tab *Moved partitions*."""
    if result is not None:
        return _action_page(request, dag_id, run_id, cluster, result)
    if cluster is None:
        return page(request, "run.html", cluster="", run_id=run_id, stories=[], problems=(), now=(), live=False)
    began_at, ended_at = times
    now = time.time()

    async def read() -> dict[str, Any]:
        seen, _ = await _live(request, cluster, "")
        found = page_data.RunPage()
        if began_at:
            found = await _read(request, cluster, lambda c: page_data.run_page(c, run_id, began_at, ended_at or now))
        stories = [part for one in found.rebalances if (part := only(tell(one, now), run_id)) is not None]
        return {"stories": stories, "problems": found.problems, "now": health(seen)}

    return await answered(request, "run.html", read, cluster=cluster, run_id=run_id, live=not ended_at)


def _action_page(
    request: Request, dag_id: str, run_id: str, cluster: ReadableCluster | None, result: RunResult
) -> HTMLResponse:
    action = FORMS[action_of_dag(dag_id) or ""]
    query = query_of(action.name, result.conf) if cluster else ""
    task = Actor("airflow", dag=dag_id, run=run_id, task=action.name)
    shown = result if cluster else replace(result, lines=())
    names: dict[str, Any] = {"dag_id": dag_id, "shown": named_here(action.words), "run_id": run_id, "action": action}
    values: dict[str, Any] = {**names, "task": task, "query": query, "result": shown, "live": not result.over}
    return page(request, "action.html", cluster=cluster or "", **values)


async def _read(request: Request, cluster: ReadableCluster, read: Callable[[Coordinator], T]) -> T:
    reader: ClusterReader = request.app.state.reader
    return await reader.read(cluster, read)


def _asks_for_data(request: Request) -> bool:
    return str(request.url.path).removeprefix(str(request.scope.get("root_path", ""))).startswith(f"{API}/")


def _problem(request: Request, status: HTTPStatus, text: str, code: str = "", **told: Any) -> Response:
    if _asks_for_data(request):
        return data({"error": text, "code": code}, status)
    given: dict[str, Any] = {"sentence": text, "title": status.phrase, "live": False, "dag": "", **told}
    return page(request, "problem.html", status=status, cluster="", code=code, **given)


async def _refused(request: Request, error: Any) -> Response:
    dag = error.dag if isinstance(error, NotReadable) else named_here(REBALANCE)
    return _problem(request, HTTPStatus(error.status_code), str(error.detail), dag=dag)


async def _failed(request: Request, error: Any) -> Response:
    """Return the page for data that cannot be read. The page reloads by itself if a reload may help."""
    fitting = (status for kind, status in STATUSES.items() if isinstance(error, kind))
    status = next(fitting, HTTPStatus.SERVICE_UNAVAILABLE)
    again = status is HTTPStatus.SERVICE_UNAVAILABLE
    title = "This cannot be read now" if again else status.phrase
    sentence = f"{str(error)[:1].upper()}{str(error)[1:]}"
    return _problem(request, status, str(error), error.code, sentence=sentence, title=title, live=again)
