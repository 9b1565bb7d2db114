"""The rebalances of all topics of a cluster, newest first, filtered and in pages. Reads only the records it needs.

A topic's history is opened when its newest record is newer than all remaining records. A request looks at up to some
`MOST_READ` records of rebalances, and the page then tells where the next page begins. A request also reads the newest
record of each topic, and up to 35 records of a topic to find a time.
"""

import heapq
import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.errors import UNREADABLE, CoordinatorError, LookAgain, Malformed, NoAccess, Refused
from coordinator_tasks.core.machine import rollback
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.machine.what_if import due_owners
from coordinator_tasks.core.model import Record, State
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, store
from coordinator_tasks.service.nodes.history import Rebalance, key_of
from coordinator_ui.data.paging import MOST_READ, ListPage, RowOrder
from coordinator_ui.texts import words

MOST_TEXT = 200
_FIRST = 10  # records of a topic to read first: a cluster may have a thousand topics
_CHUNK = 40  # records to read at once further back
_LATER = 200  # records after the wanted time that may belong to a rebalance before it
Key = tuple[float, str]
"""Sorts newest first: the negative time of the first record, then the topic."""


@dataclass(frozen=True, slots=True)
class RebalanceFilter:
    """A filter. An empty text or 0 matches all.

    A text matches anywhere, in upper or lower case. The time of a rebalance is that of its first record.
    """

    topic: str = ""
    consumer: str = ""
    cause: str = ""
    actor: str = ""
    after_at: float = 0.0
    before_at: float = 0.0

    def takes(self, one: Rebalance) -> bool:
        if not self.after_at <= one.began_at or (self.before_at and one.began_at >= self.before_at):
            return False
        consumers = {name for move in one.moves for name in (move.giver, move.taker) if name}
        consumers |= {name for record in one.records for name in record.confirmed}
        causes = [text for record in one.records for text in (record.cause, words.why(record.causes))]
        actors = [words.actor_words(a) for a in one.runs]
        checks = ((self.topic, [one.topic]), (self.consumer, consumers), (self.cause, causes), (self.actor, actors))
        return all(not text or any(text.casefold() in said.casefold() for said in listed) for text, listed in checks)


def _place(one: Rebalance) -> str:
    return f"{one.began_at!r}:{one.topic}"


def _key(place: str) -> Key | None:
    at, _, topic = place.partition(":")
    with suppress(ValueError):
        if math.isfinite(began_at := float(at)) and is_topic(topic):
            return -began_at, topic
    return None


ORDER: RowOrder[Rebalance, Key] = RowOrder(key_of, _place, _key)


def rebalances(
    c: Coordinator, wanted: RebalanceFilter, limit: int, since: Key | None = None, of: Collection[str] | None = None
) -> ListPage[Rebalance]:
    """Return at most `limit` rebalances after `since` in the order. `problems` has a sentence per unreadable history.

    `of`: open only the histories of these topics.
    """
    read, problems = 0, list[str]()
    before_at = min(wanted.before_at or math.inf, -since[0] if since is not None else math.inf)
    topics = [one for one in (history.recorded(c) if of is None else of) if wanted.topic.casefold() in one.casefold()]
    found: list[Rebalance] = []
    for one in _merged(c, topics, before_at, problems):
        read += len(one.records)
        key = key_of(one)
        if since is not None and key <= since:
            continue
        if one.began_at < wanted.after_at:
            break
        if wanted.takes(one):
            found.append(one)
        if len(found) == limit or read >= MOST_READ:
            return ListPage(tuple(found), _place(one), tuple(problems))
    return ListPage(tuple(found), None, tuple(problems))


def _merged(c: Coordinator, topics: Sequence[str], before_at: float, problems: list[str]) -> Iterator[Rebalance]:
    """Yield the rebalances of these topics that began at or before `before_at`, newest first."""
    names, denied = dict[str, list[str]](), dict[str, CoordinatorError]()
    for topic in topics:
        try:
            names[topic] = history.names(c, topic)
        except NoAccess as error:
            denied[topic] = error
    paths = {topic: f"{c.paths.history(topic)}/{listed[-1]}" for topic, listed in names.items() if listed}
    newest = find_many(c.zk, paths, denied)
    problems += [error.told for error in denied.values()]
    heap: list[tuple[Key, Rebalance | None, Iterator[Rebalance]]] = []
    for topic, node in newest.items():
        try:
            at = decode_record(paths[topic], node.data, int(names[topic][-1])).at
        except Malformed as error:
            problems.append(error.told)
            continue
        heapq.heappush(heap, ((-min(at, before_at), topic), None, _of_topic(c, topic, names[topic], before_at)))
    while heap:
        (_, topic), one, rest = heapq.heappop(heap)
        if one is not None:
            yield one
        try:
            following = next(rest, None)
        except UNREADABLE as error:
            problems.append(error.told)
            continue
        if following is not None:
            heapq.heappush(heap, (key_of(following), following, rest))


def _of_topic(c: Coordinator, topic: str, names: Sequence[str], before_at: float) -> Iterator[Rebalance]:
    chosen = names if before_at == math.inf else names[: _upto(c, topic, names, before_at)]
    for one in history.newest(c, topic, chosen, _FIRST, _CHUNK):
        if one.began_at <= before_at:
            yield one


def _upto(c: Coordinator, topic: str, names: Sequence[str], before_at: float) -> int:
    """Return how many records may belong to rebalances that began at or before this time, by binary search."""

    def later(name: str) -> bool:
        return any(one.at > before_at for one in history.read(c, topic, [name]).values())

    near = max(0, len(names) - _FIRST)
    if not later(names[near]):
        return len(names)  # the newest records are read in any case
    begin = bisect_left(names, True, hi=near, key=later)
    end = min(begin + _LATER, len(names)) if begin else 0
    for first in range(begin, end, _FIRST):
        for name, one in history.read(c, topic, names[first : min(first + _FIRST, end)]).items():
            if one.target is State.STABLE:
                return names.index(name, first) + 1
    return end


@dataclass(frozen=True, slots=True)
class Sides:
    """Owners before and after a rebalance: consumer → partitions. `problem`: why the owners are unknown."""

    before: dict[str, tuple[int, ...]] = field(default_factory=dict)
    after: dict[str, tuple[int, ...]] = field(default_factory=dict)
    problem: str = ""


def sides(c: Coordinator, one: Rebalance) -> Sides:
    """Return all owners before and after a rebalance, by undoing later moves from the current owners."""
    try:
        view = store.load(c.zk, c.paths, one.topic).view
    except (Malformed, Refused, LookAgain) as error:
        return Sides(problem=error.told)
    last = max(record.sequence for record in one.records)
    later: list[Record] = []
    for record in history.backwards(c, one.topic):
        if record.sequence <= last:
            break
        later.append(record)
    after = rollback.before(due_owners(view), later)
    before = rollback.before(after, sorted(one.records, key=lambda record: -record.sequence))
    return Sides(_by_owner(before), _by_owner(after))


def _by_owner(owners: dict[int, str]) -> dict[str, tuple[int, ...]]:
    return by_consumer((owner, partition) for partition, owner in owners.items())
