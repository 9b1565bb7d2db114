# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the routes.
"""The pages of dead letters. Whoever may read a cluster sees the content of its dead letters."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from coordinator_tasks.core.names import MAX_TOPIC_CHARS
from coordinator_ui.access import OfCluster, Readable, named_cluster
from coordinator_ui.data.letters import MOST_LETTERS, MOST_TOPICS, LetterReader
from coordinator_ui.pages.render import page
from coordinator_ui.pages.shell import answered
from spark_apps.dead_letters.shown import time_text

MOST_NUMBER = 2**63 - 1
router = APIRouter(default_response_class=HTMLResponse, dependencies=[Depends(named_cluster)])
Number = Annotated[int, Path(ge=0, le=MOST_NUMBER)]


@router.get("/dead-letters")
@router.get("/clusters/{cluster}/dead-letters")
async def letters(
    request: Request,
    cluster: OfCluster,
    readable: Readable,
    topic: Annotated[str, Query(max_length=MAX_TOPIC_CHARS)] = "",
) -> Response:
    """Show the dead letters of a cluster: number and last error for each topic, and the last failed records."""
    reader: LetterReader = request.app.state.letters

    async def read() -> dict[str, Any]:
        return {"found": await reader.every(cluster, topic)}

    limits: dict[str, Any] = {"time_text": time_text, "most_topics": MOST_TOPICS, "most_letters": MOST_LETTERS}
    values: dict[str, Any] = {"cluster": cluster, "clusters": readable, "topic": topic, "live": True, **limits}
    return await answered(request, "letters.html", read, **values)


@router.get("/clusters/{cluster}/dead-letters/{database}/{topic}/{partition}/{offset}")
async def letter(
    request: Request, cluster: OfCluster, database: str, topic: str, partition: Number, offset: Number
) -> HTMLResponse:
    """Show a dead letter: the record, the error, and the place of the failure."""
    reader: LetterReader = request.app.state.letters
    found = await reader.find(cluster, database, topic, partition, offset)
    told: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset}
    return page(request, "letter.html", cluster=cluster, database=database, found=found, live=False, **told)
