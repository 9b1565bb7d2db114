"""Pauses of moved partitions: measured after a rebalance, and stored in the rebalance's last record.

A taker reports how it took a partition up only after its first batch. So the record is written first and completed
later: by the process that made the topic Stable, by the plain loop, and by `reconcile`. Each adds the missing entries
by compare-and-set and leaves present entries unchanged, so any number of callers has one effect.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.history_codec import decode_record, with_pauses
from coordinator_tasks.core.errors import UNREADABLE, LookAgain, Malformed, NoAccess
from coordinator_tasks.core.measure import pauses
from coordinator_tasks.core.measure.pauses import Moved, TimeSpan
from coordinator_tasks.core.model import (
    ConsumerStatus,
    Move,
    MoveKind,
    Pause,
    Pauses,
    Record,
    Release,
    RunningPartition,
    State,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Node, SetData, Stat
from coordinator_tasks.core.protocol.znodes import find_decoded, find_many, newest_first
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, store

COMPLETE_S = 600.0
"""Seconds after Stable in which pauses are measured. Consumers report each pause for a longer time."""
AGAIN_S = 0.25
Told: TypeAlias = Callable[[str, Pauses], None]
"""Called with the new pauses of a topic: once for each moved partition, and once for the stalls of unmoved partitions.
"""
_CHUNK = 32
_MOST_RECORDS = 500
"""Maximum records searched for the epoch that a giver's last commit names."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A record as stored in ZooKeeper."""

    record: Record
    node: Node


@dataclass(frozen=True, slots=True)
class _Answers:
    """The consumers' answers, and the times before and after the requests on our monotonic clock."""

    by_consumer: Mapping[str, ConsumerStatus]
    began_s: float
    ended_s: float

    def made(self, status: ConsumerStatus, offset: TimeSpan) -> TimeSpan:
        """Return when the consumer made this answer, in ZooKeeper's time. `offset`: ZooKeeper's time minus ours."""
        low, high = max(status.asked_s, self.began_s), min(status.answered_s or self.ended_s, self.ended_s)
        return TimeSpan(low + offset.low, high + offset.high)


def complete(c: Coordinator, topics: Collection[str], told: Told = lambda *_: None) -> tuple[str, ...]:
    """Measure the last rebalance of each topic if it ended recently. Return the topics whose pauses are incomplete.

    `told` gets the pauses that this call has written. Parallel callers never report the same pause. A problem with one
    topic or consumer does not affect the others. Raises `StoreUnavailable` and `DiscoveryUnavailable`.
    """
    ended = [found for topic in _lately_stable(c, topics) if (found := _ended(c, topic)) is not None and found.missing]
    if not ended:
        return ()
    owners = {consumer for one in ended for consumer in one.node.assignments.values()}
    members = [member for consumer, member in c.discovery.members().items() if consumer in owners]
    began_s = c.clock.monotonic()
    said = c.statuses.ask(members)
    by_consumer = {who: one for who, one in said.items() if isinstance(one, ConsumerStatus)}
    answers = _Answers(by_consumer, began_s, c.clock.monotonic())
    return tuple(one.topic for one in ended if not _extend(c, one, answers, told))


def complete_within(
    c: Coordinator, topics: Collection[str], limit_s: float, told: Told = lambda *_: None
) -> tuple[str, ...]:
    """Repeat `complete` until no pause is missing or `limit_s` is over. First records pass soon after Stable."""
    until = c.clock.monotonic() + limit_s
    while (left := complete(c, topics, told)) and c.clock.monotonic() < until:
        topics = left
        c.clock.sleep(AGAIN_S)
    return left


# Ended rebalances ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ended:
    """An ended rebalance. `written`: records, oldest first. `moves`: partition → last move, with the move's record.

    If the giver's next process starts the partition, the start counts as a move.
    """

    topic: str
    node: TopicNode
    written: tuple[_Written, ...]
    moves: Mapping[int, tuple[Move, _Written]]

    @property
    def last(self) -> _Written:
        return self.written[-1]

    @property
    def missing(self) -> list[int]:
        """Return moved partitions without a measured pause."""
        stored = self.last.record.pauses
        known = {one.partition for one in stored.measured} if stored is not None else set()
        return [p for p in self.moves if p not in known]

    def status(self, consumer: str, answers: _Answers) -> TopicStatus | None:
        """Return an owner's status of the topic if the owning incarnation gave it in the present generation."""
        answer = answers.by_consumer.get(consumer)
        if answer is None or answer.incarnation != self.node.incarnations.get(consumer):
            return None
        status = answer.topics.get(self.topic)
        return status if status is not None and status.generation == self.node.generation else None

    def running(self, partition: int, answers: _Answers) -> RunningPartition | None:
        """Return the taker's report of the partition, if the report is about the present grant."""
        status = self.status(self.node.assignments[partition], answers)
        one = status.running.get(partition) if status is not None else None
        mine = one is not None and one.token.epoch == self.node.since.get(partition)
        return one if one is not None and mine and one.taken is not None else None


def _lately_stable(c: Coordinator, topics: Collection[str]) -> list[str]:
    paths = {topic: c.paths.state(topic) for topic in sorted(set(topics)) if is_topic(topic)}
    # A caller that works on the topic reports an unreadable state.
    found = find_decoded(c.zk, paths, lambda path, node: codec.decode_state(path, node.data), {})
    stable = {topic: one.since_at for topic, one in found.items() if one.state is State.STABLE}
    return [topic for topic, since_at in stable.items() if abs(c.clock.now() - since_at) <= COMPLETE_S]


def _ended(c: Coordinator, topic: str) -> _Ended | None:
    """Return the topic's last rebalance; `None` if there is none, if it has not ended, or if a part is unreadable."""
    try:
        node = store.read_node(c.paths.topic(topic), c.zk.find(c.paths.topic(topic)))
        written = _last_records(c, topic)
    except UNREADABLE:
        return None
    if node is None or not written or written[-1].record.target is not State.STABLE:
        return None
    moves = {move.partition: (move, one) for one in written for move in one.record.moves}
    moved = {
        partition: (move, one)
        for partition, (move, one) in sorted(moves.items())
        if move.giver and (move.giver != move.taker or move.kind is MoveKind.START)
        if node.assignments.get(partition) == move.taker
    }
    return _Ended(topic, node, written, moved)


def _last_records(c: Coordinator, topic: str) -> tuple[_Written, ...]:
    """Return the records of the last rebalance, oldest first."""
    found: list[_Written] = []
    for name, path, node in newest_first(c.zk, c.paths.history(topic), history.names(c, topic), _CHUNK):
        record = decode_record(path, node.data, int(name))
        if found and record.rebalance != found[0].record.rebalance:
            break
        found.append(_Written(record, node))
    return tuple(reversed(found))


# Measurements --------------------------------------------------------------------------------------------------------


def _extend(c: Coordinator, ended: _Ended, answers: _Answers, told: Told) -> bool:
    """Add the answers to the record. Return whether the record is complete."""
    record, node = ended.last.record, ended.last.node
    ready = {p: one for p in ended.missing if (one := ended.running(p, answers)) is not None}
    if not ready and record.pauses is not None:
        return False
    path = c.paths.record(ended.topic, record.sequence)
    try:
        offset, version = _zookeeper_time(c, path, node)
        found = pauses.merged(record.pauses, _measured(c, ended, answers, ready, offset))
        c.zk.transact([SetData(path, with_pauses(path, node.data, found), version)])
    except (LookAgain, NoAccess):
        return False  # another process completes the record, or it was pruned, or the write was denied
    fresh = tuple(one for one in found.measured if one.partition in ready)
    known = record.pauses is not None and record.pauses.unmoved is not None
    told(ended.topic, Pauses(fresh, found.missing, None if known else found.unmoved))
    return found.missing == 0


def _zookeeper_time(c: Coordinator, path: str, node: Node) -> tuple[TimeSpan, int]:
    """Return ZooKeeper's time minus our monotonic clock, and the node's version after the write that measures it.

    The write changes nothing; only ZooKeeper's time stamp is used.
    """
    before_s = c.clock.monotonic()
    (stat,) = c.zk.transact([SetData(path, node.data, node.stat.version)])
    after_s = c.clock.monotonic()
    if not isinstance(stat, Stat):
        raise TypeError("ZooKeeper answers a write with a stat")
    return TimeSpan(stat.modified_at - after_s, stat.modified_at + pauses.TICK_S - before_s), stat.version


def _measured(
    c: Coordinator, ended: _Ended, answers: _Answers, ready: Mapping[int, RunningPartition], offset: TimeSpan
) -> Pauses:
    nodes = find_many(c.zk, {p: c.paths.partition(ended.topic, p) for p in ready})
    written_at = _written_at(c, ended, ready.values())
    measured: list[Pause] = []
    left_out: list[str] = []
    for partition, running in ready.items():
        move, planned = ended.moves[partition]
        path = c.paths.partition(ended.topic, partition)
        release, released_at = _release_of(path, nodes.get(partition), planned.record)
        if running.taken is None:
            continue
        found = pauses.pause(
            Moved(
                partition,
                move.giver,
                move.taker,
                planned.node.stat.created_at,
                release,
                released_at,
                running.taken,
                answers.made(answers.by_consumer[move.taker], offset),
                running.record_bytes,
                written_at.get(running.taken.last_pass.epoch) if running.taken.last_pass is not None else None,
            )
        )
        if isinstance(found, str):
            left_out.append(found)
        else:
            measured.append(found)
    epochs = [one.record.epoch for one in ended.written]
    told = {who: said.stalls for who in answers.by_consumer if (said := ended.status(who, answers)) is not None}
    unmoved, not_believed = pauses.unmoved(told, min(epochs), max(epochs), ended.moves, ended.last.record.rebalance_s)
    # If the usual stall is unknown (a quiet partition, or a giver of an earlier release), take it from other
    # partitions. Moved partitions come first, because the stall of unmoved partitions just before the rebalance may be
    # a hang.
    before_s = unmoved.before_s if unmoved is not None else 0.0
    usual_s = max((one.usual_s for one in measured if one.usual_s is not None), default=before_s)
    if usual_s:
        measured = [replace(one, usual_s=usual_s) if one.usual_s is None else one for one in measured]
    kept = tuple(dict.fromkeys((*left_out, *not_believed)))[: pauses.MOST_LEFT_OUT]
    return Pauses(tuple(measured), len(ended.moves) - len(measured), unmoved, kept)


def _written_at(c: Coordinator, ended: _Ended, running: Iterable[RunningPartition]) -> dict[int, float]:
    """Return epoch → ZooKeeper's time of its first record, for the last commits of givers without a release."""
    said = [one.taken for one in running if one.taken is not None and one.taken.released_s is None]
    wanted = {one.last_pass.epoch for one in said if one.last_pass is not None}
    found: dict[int, float] = {}
    if not wanted:
        return found
    records = newest_first(c.zk, c.paths.history(ended.topic), history.names(c, ended.topic), _CHUNK)
    with suppress(Malformed):  # a reader of the history reports the unreadable record
        for name, path, node in islice(records, _MOST_RECORDS):
            record = decode_record(path, node.data, int(name))
            if record.generation != ended.node.generation or record.epoch < min(wanted):
                break
            found[record.epoch] = node.stat.created_at
    return found


def _release_of(path: str, node: Node | None, planned: Record) -> tuple[Release | None, float | None]:
    """Return the release that ended a hand-off of this plan, and when it was written in ZooKeeper's time."""
    if node is not None:
        with suppress(Malformed):
            release = codec.decode_release(path, node.data)
            if release and (release.epoch, release.generation) == (planned.epoch, planned.generation):
                return release, node.stat.modified_at
    return None, None
