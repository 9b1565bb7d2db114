# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""The list of rebalances over all clusters that a user may read, with a filter and pages."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query, Request

from coordinator_tasks.core.errors import Refused
from coordinator_ui.access import ReadableCluster
from coordinator_ui.data import paging, rebalance_search
from coordinator_ui.data.paging import Listed
from coordinator_ui.data.reading import ClusterReader
from coordinator_ui.data.rebalance_search import MOST_TEXT, RebalanceFilter
from coordinator_ui.texts.rebalance_text import Story, tell

Text = Annotated[str, Query(max_length=MOST_TEXT)]


def wanted_of(
    topic: Text = "", consumer: Text = "", cause: Text = "", actor: Text = "", after: Text = "", before: Text = ""
) -> RebalanceFilter:
    """Return the filter of a request. Raises `Refused` for an invalid time."""
    return RebalanceFilter(
        topic.strip(), consumer.strip(), cause.strip(), actor.strip(), after_at=moment(after), before_at=moment(before)
    )


def moment(text: str) -> float:
    """Return the time of an ISO 8601 text (UTC without a zone); 0 for an empty text. Raises `Refused`."""
    if not text.strip():
        return 0.0
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Refused(f"{text[:40]!r} is no time; give one such as 2026-11-21T08:15 (UTC)") from error


async def listed(
    request: Request,
    clusters: Collection[ReadableCluster],
    wanted: RebalanceFilter,
    limit: int,
    now: float,
    rest: str = "",
) -> Listed[Story]:
    """Return a page of the list; see `paging`."""
    reader: ClusterReader = request.app.state.reader
    page = await paging.listed(
        reader,
        clusters,
        rebalance_search.ORDER,
        lambda since, c: rebalance_search.rebalances(c, wanted, limit, since),
        limit,
        rest,
    )
    return Listed(tuple((name, tell(one, now)) for name, one in page.found), page.rest, page.problems)
