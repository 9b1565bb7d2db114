# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""Requests of persons, over all clusters that a user may read: newest first, filtered and in pages.

A record's time comes from the writing host, so within a cluster the records' numbers give the order. A page ends at a
record of each cluster.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Query, Request

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.model import ActionRecord
from coordinator_tasks.core.names import is_cluster, number_of, spelled
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log
from coordinator_ui.access import ReadableCluster
from coordinator_ui.data.api_json import actor_data
from coordinator_ui.data.reading import ClusterReader, each
from coordinator_ui.pages.rebalance_list import Text, moment
from coordinator_ui.texts import words

MOST_READ = 6_000
"""Records that a request looks at in each cluster."""
MOST_REST = 4_000
_ENDED = 0
"""A place before the first record."""
_APART_S = 3_600.0
"""Maximum seconds between hosts' clocks: a record older than the wanted time by this ends the search."""
Rest = Annotated[str, Query(max_length=MOST_REST)]


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """A filter; an empty text or 0 = any. Texts are found anywhere, in upper or lower case."""

    about: str = ""
    action: str = ""
    actor: str = ""
    after_at: float = 0.0
    before_at: float = 0.0

    def takes(self, one: ActionRecord) -> bool:
        """Return whether the record matches."""
        if one.at < self.after_at or (self.before_at and one.at >= self.before_at):
            return False
        called = f"{_flat(one.action)} {_flat(spelled(one.action))}"
        checks = ((self.about, one.about), (_flat(self.action), called), (self.actor, words.actor_words(one.actor)))
        return all(text.casefold() in said.casefold() for text, said in checks)


@dataclass(frozen=True, slots=True)
class ActionPage:
    """A page of one cluster, newest first; `rest` = records before this number are unread (`None` = none left)."""

    found: tuple[ActionRecord, ...] = ()
    rest: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedActions:
    """Cluster and record, newest first; `rest` is the start of the next page (empty = no next page)."""

    found: tuple[tuple[str, ActionRecord], ...] = ()
    rest: str = ""
    problems: tuple[str, ...] = ()


def _flat(action: str) -> str:
    """Return the same text for the stored name, for the command, and for its words with spaces."""
    return action.replace("-", "_").replace(" ", "_")


def wanted_of(
    about: Text = "", action: Text = "", actor: Text = "", after: Text = "", before: Text = ""
) -> ActionFilter:
    """Return the filter of a request; raises `Refused` for an invalid time."""
    return ActionFilter(about.strip(), action.strip(), actor.strip(), moment(after), moment(before))


async def listed(
    request: Request, clusters: Collection[ReadableCluster], wanted: ActionFilter, limit: int, rest: str = ""
) -> ListedActions:
    """A page of the list.

    A cluster that cannot be read is a sentence, and hides no other. Raises `Refused` for a bad `rest`.
    """
    places = places_of(rest)
    reader: ClusterReader = request.app.state.reader
    names = [name for name in clusters if places.get(name) != _ENDED]
    answers = await each(names, (reader.read(name, _reading(wanted, limit, places.get(name))) for name in names))
    # The next page retries unreadable records at the same place.
    problems = [f"cluster {name}: {one.told}" for name, one in answers.items() if isinstance(one, CoordinatorError)]
    found = merged({name: one for name, one in answers.items() if isinstance(one, ActionPage)}, limit, places)
    return replace(found, problems=(*problems, *found.problems))


def _reading(wanted: ActionFilter, limit: int, before: int | None) -> Callable[[Coordinator], ActionPage]:
    return lambda c: page_of(c, wanted, limit, before)


def page_of(c: Coordinator, wanted: ActionFilter, limit: int, before: int | None = None) -> ActionPage:
    """Return at most `limit` records of a cluster before this number.

    An unreadable record is a sentence, and counts too.
    """
    names = [name for name in action_log.names(c) if before is None or int(name) < before]
    found: list[ActionRecord] = []
    problems: list[str] = []
    for looked, (name, one) in enumerate(action_log.newest(c, names), 1):
        if isinstance(one, CoordinatorError):
            problems.append(one.told)
        elif one.at < wanted.after_at - _APART_S:
            break
        elif wanted.takes(one):
            found.append(one)
        if (len(found) + len(problems) == limit or looked >= MOST_READ) and name != names[0]:
            return ActionPage(tuple(found), int(name), tuple(problems))
    return ActionPage(tuple(found), None, tuple(problems))


def merged(pages: Mapping[str, ActionPage], limit: int, before: Mapping[str, int]) -> ListedActions:
    """Return the pages of all clusters as one. Records older than the end of an unfinished page wait for the next page.

    `before`: where these pages began; unchanged for clusters without a page.
    """
    left = {name: list(page.found) for name, page in pages.items()}
    chosen: list[tuple[str, ActionRecord]] = []
    while len(chosen) < limit and not any(not left[name] and page.rest is not None for name, page in pages.items()):
        heads = [(-rows[0].at, name) for name, rows in left.items() if rows]
        if not heads:
            break
        _, name = min(heads)
        chosen.append((name, left[name].pop(0)))
    ends = {name: _ENDED if page.rest is None else page.rest for name, page in pages.items()}
    ends |= {name: rows[0].sequence + 1 for name, rows in left.items() if rows}
    places = sorted({**before, **ends}.items())
    more = any(place != _ENDED for _, place in places)
    rest = ",".join(f"{name}:{place}" for name, place in places) if more else ""
    return ListedActions(tuple(chosen), rest, tuple(text for page in pages.values() for text in page.problems))


def places_of(rest: str) -> dict[str, int]:
    """Return cluster → number before which records are wanted. Raises `Refused` for any other text."""
    found: dict[str, int] = {}
    for part in rest.split(",") if rest else ():
        name, _, number = part.rpartition(":")
        place = number_of(number)
        if place is None or not is_cluster(name):
            raise Refused(f"{rest[:40]!r} is no place in the list; take the one that the page before it has named")
        found[name] = place
    return found


def asked_row(cluster: str, one: ActionRecord) -> dict[str, Any]:
    """Return a record as JSON."""
    return {
        "cluster": cluster,
        "sequence": one.sequence,
        "at": one.at,
        "action": one.action,
        "about": one.about,
        "why": one.why,
        "actor": actor_data(one.actor),
        "changes": [
            {"node": change.node, "field": change.field, "before": change.before, "after": change.after}
            for change in one.changes
        ],
    }
