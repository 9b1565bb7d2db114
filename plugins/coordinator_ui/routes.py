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
from coordinator_plugin.clusters import clusters
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from starlette.exceptions import HTTPException as AnyHTTPException

from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged, Refused
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_ui import pages
from coordinator_ui.access import action_of_dag, cluster_of, cluster_of_dag, may_read_cluster, may_read_run
from coordinator_ui.reading import Reader
from coordinator_ui.render import page
from coordinator_ui.story import Story, only, tell

SHOWN = 20
MOST_SHOWN = 500
STATUSES: Mapping[type[CoordinatorError], HTTPStatus] = {
    NotManaged: HTTPStatus.NOT_FOUND,
    Refused: HTTPStatus.BAD_REQUEST,
    Malformed: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The first match counts; any other error usually ends by itself."""
T = TypeVar("T")

router = APIRouter(default_response_class=HTMLResponse)
OfCluster = Depends(may_read_cluster)
OfRun = Depends(may_read_run)
Limit = Annotated[int, Query(ge=1, le=MOST_SHOWN)]


def make_app(reader: Reader | None = None) -> FastAPI:
    """The application; without the pages of its own documentation, which would be open to anyone."""
    app = FastAPI(title="Coordinator", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.reader = reader or Reader()
    app.include_router(router)
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


@router.get("/clusters/{cluster}/topics/{topic}/rebalances/{rebalance}", dependencies=[OfCluster])
async def rebalance(request: Request, cluster: str, topic: str, rebalance: str) -> HTMLResponse:
    """The whole story of one rebalance."""
    name = cluster_of(cluster).name
    found = await _read(request, name, lambda c: pages.rebalance(c, topic, rebalance))
    story = tell(found, time.time())
    return page(request, "rebalance.html", cluster=name, topic=topic, story=story, live=not story.ended_at)


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


async def _refused(request: Request, error: Any) -> HTMLResponse:
    """A page for 401, 403, 404 and the like."""
    status = HTTPStatus(error.status_code)
    return page(
        request, "problem.html", status=status, title=status.phrase, sentence=str(error.detail), code="", live=False
    )


async def _failed(request: Request, error: Any) -> HTMLResponse:
    """The page for data that could not be read; it tries again by itself if that may help."""
    status = next(
        (status for kind, status in STATUSES.items() if isinstance(error, kind)), HTTPStatus.SERVICE_UNAVAILABLE
    )
    again = status is HTTPStatus.SERVICE_UNAVAILABLE
    title = "This cannot be read now" if again else status.phrase
    sentence = f"{str(error)[:1].upper()}{str(error)[1:]}"
    return page(request, "problem.html", status=status, title=title, sentence=sentence, code=error.code, live=again)
