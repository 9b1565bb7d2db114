# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the routes.
"""The pages' addresses. Each one requires Airflow's own check of the user, and is only a GET."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from coordinator_plugin.clusters import Cluster, clusters
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from sqlalchemy import select
from starlette.exceptions import HTTPException as AnyHTTPException

from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged, Refused
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.history import Rebalance
from coordinator_ui import pages, past, timeline
from coordinator_ui.access import (
    REBALANCE,
    action_of_dag,
    cluster_of,
    cluster_of_dag,
    may_read_cluster,
    may_read_run,
    readable_clusters,
)
from coordinator_ui.listing import listed, wanted_of
from coordinator_ui.past import Sides, Wanted
from coordinator_ui.reading import Reader
from coordinator_ui.render import data, page
from coordinator_ui.shown import rebalance_row, rebalance_whole
from coordinator_ui.story import Story, only, tell
from coordinator_ui.tasks import task_spans
from coordinator_ui.timeline import Span

SHOWN = 20
MOST_SHOWN = 500
LISTED = 50
MOST_LISTED = 200
STATUSES: Mapping[type[CoordinatorError], HTTPStatus] = {
    NotManaged: HTTPStatus.NOT_FOUND,
    Refused: HTTPStatus.BAD_REQUEST,
    Malformed: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The first match counts; any other error usually ends by itself."""
FILTERS = ("topic", "consumer", "cause", "actor", "after", "before")
T = TypeVar("T")

API = "/api/v1"
router = APIRouter(default_response_class=HTMLResponse)
api = APIRouter(prefix=API, default_response_class=JSONResponse)
"""The data of the pages for programs."""
OfCluster = Depends(may_read_cluster)
OfRun = Depends(may_read_run)
Limit = Annotated[int, Query(ge=1, le=MOST_SHOWN)]
PageLimit = Annotated[int, Query(ge=1, le=MOST_LISTED)]
Rest = Annotated[str, Query(alias="rest", max_length=400)]
Filter = Annotated[Wanted, Depends(wanted_of)]
Readable = Annotated[tuple[Cluster, ...], Depends(readable_clusters)]


def make_app(reader: Reader | None = None) -> FastAPI:
    """The application; without the pages of its own documentation, which would be open to anyone."""
    app = FastAPI(title="Coordinator", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.reader = reader or Reader()
    app.state.task_spans = task_spans
    app.include_router(router)
    app.include_router(api)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(CoordinatorError, _failed)
    return app


@router.get("/", dependencies=[OfCluster])
@router.get("/clusters/{cluster}", dependencies=[OfCluster])
async def overview(request: Request, cluster: str = "") -> HTMLResponse:
    """The topics and consumers of a cluster, and the last moves."""
    name = cluster_of(cluster).name
    found = await _read(request, name, pages.cluster_page)
    recent = [tell(one, found.now) for one in found.recent]
    names = [one.name for one in clusters()]
    return page(request, "overview.html", cluster=name, clusters=names, found=found, recent=recent, live=True)


@router.get("/clusters/{cluster}/topics/{topic}", dependencies=[OfCluster])
async def topic(request: Request, cluster: str, topic: str, limit: Limit = SHOWN) -> HTMLResponse:
    """The owners of a topic's partitions, and its rebalances."""
    name = cluster_of(cluster).name
    found = await _read(request, name, lambda c: pages.topic_page(c, topic, limit))
    if found.summary.problem and not found.rebalances and not found.problem:
        raise HTTPException(404, found.summary.problem)
    stories = [tell(one, found.now) for one in found.rebalances]
    more = min(limit * 5, MOST_SHOWN) if found.more and limit < MOST_SHOWN else 0
    return page(request, "topic.html", cluster=name, found=found, stories=stories, more=more, live=True)


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything of one rebalance."""

    cluster: str
    story: Story
    sides: Sides
    tasks: tuple[Span, ...]


async def _whole(request: Request, cluster: str, topic: str, rebalance: str, now: float) -> Whole:
    one = cluster_of(cluster)

    def read(c: Coordinator) -> tuple[Rebalance, Sides]:
        found = pages.rebalance(c, topic, rebalance)
        return found, past.sides(c, found)

    found, sides = await _read(request, one.name, read)
    tasks = await run_in_threadpool(request.app.state.task_spans, one.dag_id(REBALANCE), found.runs)
    return Whole(one.name, tell(found, now), sides, tasks)


@router.get("/clusters/{cluster}/topics/{topic}/rebalances/{rebalance}", dependencies=[OfCluster])
async def rebalance(request: Request, cluster: str, topic: str, rebalance: str) -> HTMLResponse:
    """The whole story of one rebalance."""
    now = time.time()
    whole = await _whole(request, cluster, topic, rebalance, now)
    story = whole.story
    charts = (timeline.handoffs(story, whole.tasks, now), timeline.whole(story, whole.tasks, now))
    return page(
        request,
        "rebalance.html",
        cluster=whole.cluster,
        topic=topic,
        story=story,
        sides=whole.sides,
        charts=charts,
        live=not story.ended_at,
    )


@api.get("/clusters/{cluster}/topics/{topic}/rebalances/{rebalance}", dependencies=[OfCluster])
async def rebalance_data(request: Request, cluster: str, topic: str, rebalance: str) -> Response:
    """The same as JSON."""
    whole = await _whole(request, cluster, topic, rebalance, time.time())
    return data(rebalance_whole(whole.cluster, whole.story, whole.sides, whole.tasks))


@router.get("/rebalances")
async def rebalances(
    request: Request, readable: Readable, wanted: Filter, limit: PageLimit = LISTED, rest: Rest = ""
) -> HTMLResponse:
    """The rebalances of all topics and clusters, newest first."""
    now = time.time()
    found = await listed(request, [one.name for one in readable], wanted, limit, now, rest)
    asked = {name: value for name, value in request.query_params.items() if name in FILTERS and value.strip()}
    return page(request, "rebalances.html", cluster="", found=found, asked=asked, rest=rest, now=now, live=not rest)


@api.get("/rebalances")
async def rebalances_data(
    request: Request, readable: Readable, wanted: Filter, limit: PageLimit = LISTED, rest: Rest = ""
) -> Response:
    """The same as JSON."""
    found = await listed(request, [one.name for one in readable], wanted, limit, time.time(), rest)
    rows = [rebalance_row(name, story) for name, story in found.found]
    return data({"rebalances": rows, "rest": found.rest or None, "problems": list(found.problems)})


def run_times(dag_id: str, run_id: str, session: SessionDep) -> tuple[float, float]:
    """When an Airflow run began and ended; 0 = not yet. A dependency, because FastAPI runs those outside its loop."""
    times = select(DagRun.start_date, DagRun.end_date).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    began, ended = session.execute(times).one_or_none() or (None, None)
    return began.timestamp() if began else 0.0, ended.timestamp() if ended else 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """What the only task of an action's run has said; `over` = it has ended, `ok` = without an error."""

    lines: tuple[str, ...] = ()
    dry_run: bool = True
    over: bool = False
    ok: bool = False


def run_result(dag_id: str, run_id: str, session: SessionDep) -> Result | None:
    """The result of a run of an action's DAG; `None` = this is no such run. Asks Airflow's database for nothing else."""
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
    if isinstance(lines, str):  # how Airflow stores a value depends on who has stored it
        lines = json.loads(lines)
    dry_run = conf.get("dry_run", True) is not False if isinstance(conf, dict) else True
    over, ok = str(state) in ("success", "failed"), str(state) == "success"
    return Result(tuple(map(str, lines or ())), dry_run, over, ok)


ActionResult = Annotated[Result | None, Depends(run_result)]
Times = Annotated[tuple[float, float], Depends(run_times)]


@router.get("/runs/{dag_id}/{run_id:path}", dependencies=[OfRun])
async def run(request: Request, dag_id: str, run_id: str, times: Times, result: ActionResult) -> HTMLResponse:
    """The moves of one run of a `rebalance` DAG, or the result of an action's run: the tab of the run's own page."""
    if result is not None:
        return page(request, "action.html", dag_id=dag_id, run_id=run_id, result=result, live=not result.over)
    cluster = cluster_of_dag(dag_id)
    if cluster is None:
        return page(request, "run.html", cluster="", run_id=run_id, stories=[], live=False)
    began_at, ended_at = times
    now = time.time()
    stories: list[Story] = []
    if began_at:
        parts = await _read(request, cluster.name, lambda c: pages.run_rebalances(c, run_id, began_at, ended_at or now))
        stories = [part for one in parts if (part := only(tell(one, now), run_id)) is not None]
    live = not ended_at
    return page(request, "run.html", cluster=cluster.name, run_id=run_id, stories=stories, live=live)


async def _read(request: Request, cluster: str, read: Callable[[Coordinator], T]) -> T:
    reader: Reader = request.app.state.reader
    return await reader.read(cluster, read)


def _asks_for_data(request: Request) -> bool:
    return str(request.url.path).removeprefix(str(request.scope.get("root_path", ""))).startswith(f"{API}/")


async def _refused(request: Request, error: Any) -> Response:
    """A page for 401, 403, 404 and the like."""
    status = HTTPStatus(error.status_code)
    if _asks_for_data(request):
        return data({"error": str(error.detail), "code": ""}, status)
    return page(
        request, "problem.html", status=status, title=status.phrase, sentence=str(error.detail), code="", live=False
    )


async def _failed(request: Request, error: Any) -> Response:
    """The page for data that could not be read; it tries again by itself if that may help."""
    status = next(
        (status for kind, status in STATUSES.items() if isinstance(error, kind)), HTTPStatus.SERVICE_UNAVAILABLE
    )
    if _asks_for_data(request):
        return data({"error": str(error), "code": error.code}, status)
    again = status is HTTPStatus.SERVICE_UNAVAILABLE
    title = "This cannot be read now" if again else status.phrase
    sentence = f"{str(error)[:1].upper()}{str(error)[1:]}"
    return page(request, "problem.html", status=status, title=title, sentence=sentence, code=error.code, live=again)
