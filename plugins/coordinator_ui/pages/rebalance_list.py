# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""Pages of lists over all clusters that a user may read, and the list of rebalances with its filter."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_ui.access import Readable
from coordinator_ui.data import paging, rebalance_search
from coordinator_ui.data.paging import MOST_REST, Listed, ListPage, RowOrder
from coordinator_ui.data.rebalance_search import MOST_TEXT, RebalanceFilter
from coordinator_ui.texts.rebalance_text import Story, tell

LISTED = 50
MOST_LISTED = 200
Text = Annotated[str, Query(max_length=MOST_TEXT)]
T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page of a list; `rest`: where the page begins."""

    request: Request
    clusters: Readable
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = LISTED
    rest: Annotated[str, Query(max_length=MOST_REST)] = ""

    async def page(self, order: RowOrder[T, P], read: Callable[[Coordinator, int, P | None], ListPage[T]]) -> Listed[T]:
        """Return the page; see `paging`. `read`: coordinator, limit and place → the page of one cluster."""
        reader, limit = self.request.app.state.reader, self.limit
        return await paging.listed(
            reader, self.clusters, order, lambda place, c: read(c, limit, place), limit, self.rest
        )


Asked = Annotated[PageRequest, Depends()]


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


async def stories(asked: PageRequest, wanted: RebalanceFilter, now: float) -> Listed[Story]:
    """Return a page of the list of rebalances."""
    page = await asked.page(rebalance_search.ORDER, lambda c, *place: rebalance_search.rebalances(c, wanted, *place))
    return Listed(tuple((name, tell(one, now)) for name, one in page.found), page.rest, page.problems)
