"""The history of a topic: its records, newest first, and its rebalances."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from zlib import crc32

from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.errors import UNREADABLE, LookAgain, NotManaged
from coordinator_tasks.core.model import Actor, Move, Pauses, Record, State
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Delete
from coordinator_tasks.core.protocol.znodes import children, find_many, newest_first, numbered
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log

KEEP, KEEP_IN_ALL, KEEP_LEAST = 10_000, 100_000, 500
"""Maximum records per topic, maximum over all topics, and minimum per topic: ZooKeeper holds records in memory."""
LEAST_RECORDS = 50
"""Number of newest records of a topic that stay, however large: for the rebalance under way and for a roll back."""
_MEASURED_EVERY = 60  # minutes
_CHUNK = 200  # records read at once while going back in time
_FIRST = 20  # records read at once for rebalances: callers mostly want the newest few
_DELETES = 500


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance of a topic, from the first plan until Stable, over all runs.

    - `states`: all states, from the state before the rebalance on.
    - `ended_at`: 0 until the end.
    - `moves`: lists a partition again if it is planned again meanwhile.
    - `pauses`: once measured.
    - `given_up`: the topic's state was lost before the end, and another rebalance began at `ended_at`.
    """

    topic: str
    rebalance: str
    cause: str
    began_at: float
    ended_at: float
    lasted_s: float
    states: tuple[State, ...]
    runs: tuple[Actor, ...]
    moves: tuple[Move, ...]
    records: tuple[Record, ...]
    pauses: Pauses | None = None
    given_up: bool = False

    @property
    def unasked(self) -> bool:
        """Return whether nobody requested the rebalance or any of its plans."""
        return any(record.unasked for record in self.records)


def records(c: Coordinator, topic: str, limit: int = 100) -> tuple[Record, ...]:
    """Return the newest records of a topic, newest first; empty for an unknown topic. Raises `Malformed`."""
    return tuple(islice(backwards(c, topic, min(limit, _CHUNK)), limit))


def recorded(c: Coordinator) -> list[str]:
    """Return the topics with a history."""
    return list(filter(is_topic, children(c.zk, c.paths.histories)))


def rebalances(
    c: Coordinator, topics: Collection[str] = (), limit: int = 20, problems: list[str] | None = None
) -> tuple[Rebalance, ...]:
    """Return the newest complete rebalances of these topics (all if empty), newest first, at most `limit`.

    `problems` gets the errors of unreadable topics. Without `problems`, the first error is raised.
    """
    each = (_readable(newest(c, topic), problems) for topic in sorted(topics) or recorded(c))
    return tuple(sorted(islice(heapq.merge(*each, key=key_of), limit), key=key_of))


def named(c: Coordinator, name: str, topic: str = "") -> Rebalance:
    """Return the rebalance of this name. `topic`: search only this topic. Raises `NotManaged` and `Malformed`."""
    for one in [topic] if topic else recorded(c):
        for found in newest(c, one):
            if found.rebalance == name:
                return found
    of = f" of topic {topic!r}" if topic else ""
    told = f"there is no rebalance {name[:60]!r}{of}: it may be older than the records kept"
    raise NotManaged(f"{told}; `history` lists those there are")


def key_of(one: Rebalance) -> tuple[float, str]:
    """Return the sort key: newest first, by the time of the first record."""
    return -one.began_at, one.topic


def _readable(found: Iterable[Rebalance], problems: list[str] | None) -> Iterator[Rebalance]:
    try:
        yield from found
    except UNREADABLE as error:
        if problems is None:
            raise
        problems.append(error.told)


def newest(
    c: Coordinator, topic: str, listed: Sequence[str] | None = None, first: int = _FIRST, chunk: int = _CHUNK
) -> Iterator[Rebalance]:
    """Yield the rebalances of a topic, newest first, from the `listed` records (default: all), read only as needed.

    The newest records are read in a chunk of `first`, the others in chunks of `chunk`.
    """
    listed = names(c, topic) if listed is None else listed
    read = partial(newest_first, c.zk, c.paths.history(topic))
    found = chain(read(listed[-first:], first), read(listed[:-first], chunk))
    records = (decode_record(path, node.data, int(name)) for name, path, node in found)
    later_at = 0.0
    for _, group in groupby(records, lambda record: record.rebalance):  # a topic has one rebalance at a time
        one = summed_up(topic, [*group][::-1], later_at)
        later_at = one.began_at
        yield one


def summed_up(topic: str, group: list[Record], later_at: float = 0.0) -> Rebalance:
    """Return the rebalance that consists of these records, which are oldest first.

    `later_at`: when the next rebalance began; 0 without a next rebalance.
    """
    first, last = group[0], group[-1]
    over = last.target is State.STABLE
    given_up = bool(later_at) and not over
    return Rebalance(
        topic=topic,
        rebalance=first.rebalance,
        cause=first.cause,
        began_at=first.at,
        ended_at=last.at if over else later_at,
        lasted_s=max(0.0, later_at - first.at) if given_up else last.rebalance_s,
        states=(first.source, *(record.target for record in group)),
        runs=tuple(dict.fromkeys(record.actor for record in group)),
        moves=tuple(move for record in group for move in record.moves),
        records=tuple(group),
        pauses=last.pauses,
        given_up=given_up,
    )


def backwards(c: Coordinator, topic: str, chunk: int = _CHUNK) -> Iterator[Record]:
    """Yield all records, newest first, read in chunks. A record pruned meanwhile is left out."""
    for name, path, node in newest_first(c.zk, c.paths.history(topic), names(c, topic), chunk):
        yield decode_record(path, node.data, int(name))


def read(c: Coordinator, topic: str, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of these names. Pruned records are left out."""
    paths = {name: f"{c.paths.history(topic)}/{name}" for name in names}
    return {name: decode_record(paths[name], node.data, int(name)) for name, node in find_many(c.zk, paths).items()}


def names(c: Coordinator, topic: str) -> list[str]:
    """Return the records' names, oldest first. Other children are left out."""
    return numbered(c.zk, c.paths.history(topic))


def kept(topics: int) -> int:
    """Return how many records of each topic to keep if there are so many topics."""
    return min(KEEP, max(KEEP_LEAST, KEEP_IN_ALL // max(1, topics)))


def prune(c: Coordinator, topic: str, keep: int = KEEP) -> int:
    """Delete the oldest records beyond `keep`. Return how many. A failed deletion is left to the next call."""
    return _prune(c, c.paths.history(topic), names(c, topic), keep)


def prune_bytes(c: Coordinator, topic: str, keep_bytes: int) -> int:
    """Delete the oldest records beyond `keep_bytes`. Return how many. The newest `LEAST_RECORDS` stay.

    Only reading tells a record's size. So a topic is measured once an hour, each topic in another minute.
    """
    if int(c.clock.now() // 60) % _MEASURED_EVERY != crc32(topic.encode()) % _MEASURED_EVERY:
        return 0
    listed, size = names(c, topic), 0
    for keep, (_, _, node) in enumerate(newest_first(c.zk, c.paths.history(topic), listed, _FIRST)):
        size += len(node.data)
        if size > keep_bytes and keep >= LEAST_RECORDS:
            return _prune(c, c.paths.history(topic), listed, keep)
    return 0


def prune_asked(c: Coordinator, keep: int = KEEP) -> int:
    """Delete the oldest records of persons' actions beyond `keep`. Return how many."""
    return _prune(c, c.paths.asked, action_log.names(c), keep)


def _prune(c: Coordinator, folder: str, names: Sequence[str], keep: int) -> int:
    old, deleted = names[: -keep if keep else None], 0
    for first in range(0, len(old), _DELETES):
        deleted += _delete(c, [f"{folder}/{name}" for name in old[first : first + _DELETES]])
    return deleted


def _delete(c: Coordinator, paths: Sequence[str]) -> int:
    """Delete all nodes in one transaction, or each alone if a node is missing or has a child. Return how many."""
    with suppress(LookAgain):
        c.zk.transact([Delete(path) for path in paths])
        return len(paths)
    return sum(_delete(c, [path]) for path in paths) if len(paths) > 1 else 0
