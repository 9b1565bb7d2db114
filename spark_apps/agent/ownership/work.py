"""Requests to Kafka and to the sink, as values.

`requests` returns the due request, `perform` sends it and returns the result.

Between the two anything may happen: `requests` judges a result by the time of its request.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator_tasks.core.errors import CommitFenced, GroupInUse, KafkaUnavailable, Refused
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import GroupOffsets
from coordinator_tasks.core.protocol.fence import Bounds
from spark_apps.agent.settings import Identity
from spark_apps.delivery import SinkEntry, SinkUnavailable, TransactionalSink, Writer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """Kafka's OffsetFetch: the committed entries of `partitions`; with `asks_id` then also the topic's present id.

    `holding`: all partitions held under the topic's id `topic_id`.
    """

    partitions: tuple[int, ...]
    number: int
    topic_id: str
    holding: Mapping[int, Token]
    asks_id: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit these offsets with their metadata, in one request."""

    offsets: Mapping[int, Committed]
    number: int


@dataclass(frozen=True, slots=True)
class ListBounds:
    """Kafka's ListOffsets where no position is known: the first offset, and the offset after the last.

    `times_ms`: for some partitions also the first record at or after that time, in milliseconds since 1970.
    """

    partitions: tuple[int, ...]
    number: int
    times_ms: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Kafka's ListOffsets of read partitions: the offset after the last readable record.

    For `beginnings` also the first.
    """

    partitions: tuple[int, ...]
    number: int
    beginnings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkClaim:
    """Put the tokens of these partitions into the sink, and ask for the sink's positions.

    `forget`: partition → epoch of a seek; a position written under an older token does not count. `partition_count`: of the
    topic; 0 = not known.
    """

    identity: Identity
    topic_id: str
    tokens: Mapping[int, Token]
    forget: Mapping[int, int]
    number: int
    partition_count: int = 0


Work: TypeAlias = OffsetFetch | Commit | ListBounds | ListOffsets | SinkClaim


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The committed entries, and the topic's id after them (empty = unknown topic; `None` = not requested).

    Entries alone do not show a recreated topic: a commit may already have reached the new topic. `unheld`: for our held
    partitions, why Kafka does not refuse other consumers' commits yet. `partition_count`: of the topic; 0 = not known.
    """

    entries: Mapping[int, Committed]
    topic_id: str | None
    unheld: Mapping[int, str] = field(default_factory=dict)
    partition_count: int = 0


@dataclass(frozen=True, slots=True)
class CommitDone:
    """The commit is acknowledged. `alone`: Kafka takes no further commit of former owners.

    `failed`: partition → why not committed; the outcome is unknown.
    """

    alone: bool = False
    failed: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedBounds:
    """The bounds of each partition that Kafka knows; `at`: the existing offsets requested by time."""

    bounds: Mapping[int, Bounds]
    at: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedOffsets:
    """The end of each partition that Kafka knows, and the requested beginnings."""

    ends: Mapping[int, int]
    beginnings: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkClaimed:
    """The sink's token and position of each partition."""

    found: Mapping[int, SinkEntry]


@dataclass(frozen=True, slots=True)
class Failed:
    """The brokers or the sink failed the request, or a commit's outcome is unknown.

    `refused`: the group has subscribed members.

    `fenced`: partitions of a commit with another owner, according to the broker. `away`: the sink does not answer.
    """

    reason: str
    refused: bool = False
    fenced: tuple[int, ...] = ()
    away: bool = False


Result: TypeAlias = FetchedOffsets | CommitDone | ListedBounds | ListedOffsets | SinkClaimed | Failed


def perform(offsets: GroupOffsets, topic: str, work: Work, sink: TransactionalSink | None = None) -> Result:
    """Send a request to Kafka, or to the sink that keeps the positions; blocks until the answer."""
    try:
        match work:
            case OffsetFetch() as fetch:
                return _fetched(offsets, topic, fetch)
            case Commit(offsets=entries):
                failed = offsets.commit(topic, entries)
                return CommitDone(offsets.fences, failed)
            case ListBounds(partitions=partitions, times_ms=times_ms):
                first, end = offsets.beginnings(topic, partitions), offsets.ends(topic, partitions)
                bounds = {p: Bounds(first[p], end[p]) for p in first.keys() & end.keys()}
                return ListedBounds(
                    bounds, offsets.at_times(topic, {p: at for p, at in times_ms.items() if p in bounds})
                )
            case ListOffsets(partitions=partitions, beginnings=beginnings):
                first = offsets.beginnings(topic, beginnings) if beginnings else {}
                return ListedOffsets(offsets.ends(topic, partitions), first)
            case SinkClaim() as claim:
                return _claimed(sink, topic, claim)
    except CommitFenced as error:
        return Failed(str(error), fenced=error.partitions)
    except (KafkaUnavailable, Refused) as error:
        return Failed(str(error), refused=isinstance(error, GroupInUse))


def _fetched(offsets: GroupOffsets, topic: str, fetch: OffsetFetch) -> FetchedOffsets:
    unheld = offsets.hold(topic, fetch.topic_id, fetch.holding)
    entries = offsets.committed(topic, fetch.partitions)
    described = offsets.describe(topic) if fetch.asks_id else None
    topic_id, count = (described.topic_id, described.partition_count) if described is not None else ("", 0)
    return FetchedOffsets(entries, topic_id if fetch.asks_id else None, unheld, count)


def _claimed(sink: TransactionalSink | None, topic: str, claim: SinkClaim) -> Result:
    identity = claim.identity
    writer = Writer(identity.cluster, topic, claim.topic_id, identity.consumer, claim.partition_count)
    if sink is None:
        return Failed("positions are to be claimed and no sink is known")
    try:
        return SinkClaimed(sink.claim(writer, claim.tokens, claim.forget))
    except SinkUnavailable as error:
        return Failed(str(error), away=True)
    except BaseException as error:  # the edge of a sink of the application's own: without an answer nothing would go on
        log.exception("the sink failed to take claims")
        return Failed(f"the sink failed to take claims ({type(error).__name__}: {error})")
