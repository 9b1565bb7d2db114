"""Lists over all clusters that a user may read, newest first, in pages. A page ends at one place in each cluster.

A row's time comes from the host that wrote the row, so within a cluster the stored order counts.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.names import is_cluster
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_ui.access import ReadableCluster
from coordinator_ui.data.reading import ClusterReader, each

MOST_REST = 8_000
"""Maximum characters of `rest`, which has a place for each cluster."""
MOST_READ = 6_000
"""Records that a request reads from each cluster."""
ENDED = "0"
"""The place after the last row of a cluster."""
T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page of one cluster, newest first. `rest`: where the next page begins; `None` if this page is the last."""

    found: tuple[T, ...] = ()
    rest: str | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Rows with their cluster, newest first. `rest`: where the next page begins; empty if this page is the last."""

    found: tuple[tuple[str, T], ...] = ()
    rest: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowOrder(Generic[T, P]):
    """The order of rows. `key`: the smallest is the newest. `place`: a row → the place after this row.

    `parsed`: text → place.
    """

    key: Callable[[T], Any]
    place: Callable[[T], str]
    parsed: Callable[[str], P | None]


async def listed(
    reader: ClusterReader,
    clusters: Collection[ReadableCluster],
    order: RowOrder[T, P],
    read: Callable[[P | None, Coordinator], ListPage[T]],
    limit: int,
    rest: str = "",
) -> Listed[T]:
    """Return a page of the list.

    If a cluster cannot be read, the page reports it and lists the others. Raises `Refused` for a malformed `rest`.
    """
    before = _places_of(rest)
    places = {name: _parsed(order, rest, place) for name, place in before.items() if place != ENDED}
    names = [name for name in clusters if before.get(name) != ENDED]
    reads = (reader.read(name, partial(read, places.get(name))) for name in names)
    answers = await each(names, reads)
    # The next page tries an unreadable cluster again, at the same place.
    problems = [f"cluster {name}: {one.told}" for name, one in answers.items() if isinstance(one, CoordinatorError)]
    pages = {name: one for name, one in answers.items() if isinstance(one, ListPage)}
    found = merged(pages, order, limit, before)
    return replace(found, problems=(*problems, *found.problems))


def merged(pages: Mapping[str, ListPage[T]], order: RowOrder[T, P], limit: int, before: Mapping[str, str]) -> Listed[T]:
    """Return the pages of all clusters as one. Rows older than the end of an incomplete page wait for the next page.

    `before`: the places where these pages began. A cluster without a page keeps its place.
    """
    left = {name: list(page.found) for name, page in pages.items()}
    ends = dict(before)
    chosen: list[tuple[str, T]] = []
    while len(chosen) < limit and not any(not left[name] and page.rest is not None for name, page in pages.items()):
        heads = [(order.key(rows[0]), name) for name, rows in left.items() if rows]
        if not heads:
            break
        _, name = min(heads)
        chosen.append((name, left[name].pop(0)))
        ends[name] = order.place(chosen[-1][1])
    ends |= {name: page.rest or ENDED for name, page in pages.items() if not left[name]}
    more = any(name not in ends for name in pages) or any(place != ENDED for place in ends.values())
    rest = ",".join(f"{name}:{place}" for name, place in sorted(ends.items())) if more else ""
    return Listed(tuple(chosen), rest, tuple(text for page in pages.values() for text in page.problems))


def _places_of(rest: str) -> dict[str, str]:
    parts = [part.partition(":") for part in rest.split(",")] if rest else []
    if not all(is_cluster(name) for name, _, _ in parts):
        raise _no_place(rest)
    return {name: place for name, _, place in parts}


def _parsed(order: RowOrder[T, P], rest: str, place: str) -> P:
    found = order.parsed(place)
    if found is None:
        raise _no_place(rest)
    return found


def _no_place(rest: str) -> Refused:
    return Refused(f"{rest[:40]!r} is no place in the list; take the one that the page before it has named")
