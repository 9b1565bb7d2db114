# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""Actions that persons requested, over all clusters that a user may read: newest first, filtered and in pages."""

from dataclasses import asdict, dataclass
from typing import Any

from coordinator_tasks.core.codecs.history_codec import ACTOR
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import ActionRecord
from coordinator_tasks.core.names import number_of, spelled
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log
from coordinator_ui.data.paging import MOST_READ, Listed, ListPage, RowOrder
from coordinator_ui.pages.rebalance_list import PageRequest, Text, moment
from coordinator_ui.texts import words

_APART_S = 3_600.0
"""Maximum seconds between hosts' clocks. A record older than the wanted time by more than this ends the search."""
ORDER: RowOrder[ActionRecord, int] = RowOrder(lambda one: -one.at, lambda one: str(one.sequence), number_of)
"""Places are numbers of records. A page has the records before its place."""


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """A filter. An empty text or 0 matches all. A text matches anywhere, in upper or lower case."""

    about: str = ""
    action: str = ""
    actor: str = ""
    after_at: float = 0.0
    before_at: float = 0.0

    def takes(self, one: ActionRecord) -> bool:
        if one.at < self.after_at or (self.before_at and one.at >= self.before_at):
            return False
        called = f"{_flat(one.action)} {_flat(spelled(one.action))}"
        checks = ((self.about, one.about), (_flat(self.action), called), (self.actor, words.actor_words(one.actor)))
        return all(text.casefold() in said.casefold() for text, said in checks)


def _flat(action: str) -> str:
    """Return the same text for an action's stored name, its command, and its words with spaces."""
    return action.replace("-", "_").replace(" ", "_")


def wanted_of(
    about: Text = "", action: Text = "", actor: Text = "", after: Text = "", before: Text = ""
) -> ActionFilter:
    """Return the filter of a request. Raises `Refused` for an invalid time."""
    return ActionFilter(about.strip(), action.strip(), actor.strip(), moment(after), moment(before))


async def listed(asked: PageRequest, wanted: ActionFilter) -> Listed[ActionRecord]:
    """Return a page of the list."""
    return await asked.page(ORDER, lambda c, *place: page_of(c, wanted, *place))


def page_of(c: Coordinator, wanted: ActionFilter, limit: int, before: int | None = None) -> ListPage[ActionRecord]:
    """Return at most `limit` records of a cluster with numbers below `before`.

    An unreadable record becomes a sentence, and counts towards the limit.
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
            return ListPage(tuple(found), str(int(name)), tuple(problems))
    return ListPage(tuple(found), None, tuple(problems))


def asked_row(cluster: str, one: ActionRecord) -> dict[str, Any]:
    """Return a record as JSON."""
    return {
        "cluster": cluster,
        "sequence": one.sequence,
        "at": one.at,
        "action": one.action,
        "about": one.about,
        "why": one.why,
        "actor": ACTOR.write(one.actor),
        "changes": [asdict(change) for change in one.changes],
    }
