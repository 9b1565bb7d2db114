# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""The list of rebalances over all clusters that a user may read: its filter, its pages, and the end of a page."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query, Request

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.service.nodes.history import key_of
from coordinator_ui.access import ReadableCluster
from coordinator_ui.data import rebalance_search
from coordinator_ui.data.reading import ClusterReader, each
from coordinator_ui.data.rebalance_search import MOST_TEXT, Key, RebalanceFilter, RebalancePage
from coordinator_ui.texts.rebalance_text import Story, tell

Text = Annotated[str, Query(max_length=MOST_TEXT)]


@dataclass(frozen=True, slots=True)
class ListedRebalances:
    """Cluster and rebalance, newest first; `rest` is the start of the next page (empty = no next page)."""

    found: tuple[tuple[str, Story], ...]
    rest: str = ""
    problems: tuple[str, ...] = ()


def wanted_of(
    topic: Text = "", consumer: Text = "", cause: Text = "", actor: Text = "", after: Text = "", before: Text = ""
) -> RebalanceFilter:
    """Return the filter of a request; raises `Refused` for an invalid time."""
    return RebalanceFilter(
        topic.strip(),
        consumer.strip(),
        cause.strip(),
        actor.strip(),
        after_at=moment(after),
        before_at=moment(before),
    )


def moment(text: str) -> float:
    """Return the time of an ISO 8601 text, UTC without a zone; 0 for an empty text. Raises `Refused`."""
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
) -> ListedRebalances:
    """A page of the list.

    A cluster that cannot be read is a sentence, and hides no other. Raises `Refused` for a bad `rest`.
    """
    since = _place(rest) if rest else None
    reader: ClusterReader = request.app.state.reader
    reads = [reader.read(name, lambda c: rebalance_search.rebalances(c, wanted, limit, since)) for name in clusters]
    pages = {
        name: RebalancePage(problems=(f"cluster {name}: {one.told}",)) if isinstance(one, CoordinatorError) else one
        for name, one in (await each(clusters, reads)).items()
    }
    return merged(pages, limit, now)


def merged(pages: Mapping[str, RebalancePage], limit: int, now: float) -> ListedRebalances:
    """Return the pages of all clusters as one. Rebalances beyond the furthest common place wait for the next page."""
    reached = min((page.rest for page in pages.values() if page.rest is not None), default=None)
    every = [(key_of(one), name, one) for name, page in pages.items() for one in page.found]
    every.sort(key=lambda each: each[:2])
    chosen = [each for each in every if reached is None or each[0] <= reached]
    if len(chosen) > limit:
        reached = chosen[limit - 1][0]
        # with all rebalances of the same time and name in two clusters
        chosen = [each for each in chosen if each[0] <= reached]
    problems = tuple(text for page in pages.values() for text in page.problems)
    found = tuple((name, tell(one, now)) for _, name, one in chosen)
    return ListedRebalances(found, "" if reached is None else f"{-reached[0]!r}:{reached[1]}", problems)


def _place(text: str) -> Key:
    at, colon, topic = text.partition(":")
    try:
        began_at = float(at)
    except ValueError:
        began_at = math.nan
    if not colon or not math.isfinite(began_at) or len(topic) > MOST_TEXT + 49:
        raise Refused(f"{text[:40]!r} is no place in the list; take the one that the page before it has named")
    return -began_at, topic
