"""Requests to Kafka and to the sink, as values.

`requests` returns the due request; `perform` sends the request and returns the result. Ownership may change between the
two, so `requests` judges a result by the time of its request.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator_tasks.core.errors import CommitFenced, CoordinatorError, GroupInUse, KafkaUnavailable, Refused
from coordinator_tasks.core.model import Committed, StateOnReset, Token
from coordinator_tasks.core.ports import GroupOffsets
from coordinator_tasks.core.protocol.fence import Bounds
from spark_apps.agent.settings import Identity
from spark_apps.delivery import SinkEntry, SinkUnavailable, TransactionalSink, Writer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """Kafka's OffsetFetch of the committed entries of `partitions`; with `asks_id`, the topic's present id is read
    after.

    `holding`: all partitions held under the topic id `topic_id`, with their tokens.
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
    """Kafka's ListOffsets for partitions without a known position: the first offset, and the offset after the last.

    `times_ms`: partition → time in milliseconds since 1970, to find the first record at or after this time.
    """

    partitions: tuple[int, ...]
    number: int
    times_ms: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Kafka's ListOffsets for read partitions: the offset after the last readable record.

    For the partitions in `beginnings`, the first offset too.
    """

    partitions: tuple[int, ...]
    number: int
    beginnings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkClaim:
    """Put the tokens of these partitions into the sink, and ask for the sink's positions.

    `forget`: partition → epoch of a seek; a position written under an older token does not count. `partition_count`: of the
    topic; 0 = not known. `states`: partition → what the seek does with the state.
    """

    identity: Identity
    topic_id: str
    tokens: Mapping[int, Token]
    forget: Mapping[int, int]
    number: int
    partition_count: int = 0
    states: Mapping[int, StateOnReset] = field(default_factory=dict)


Work: TypeAlias = OffsetFetch | Commit | ListBounds | ListOffsets | SinkClaim


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The committed entries, and the topic's id read after them (empty = unknown topic; `None` = not requested).

    Entries alone do not show a recreated topic, because a commit may already have reached the new topic. `unheld`: held
    partition → why Kafka does not yet refuse other consumers' commits. `partition_count`: of the topic; 0 = unknown.
    """

    entries: Mapping[int, Committed]
    topic_id: str | None
    unheld: Mapping[int, str] = field(default_factory=dict)
    partition_count: int = 0


@dataclass(frozen=True, slots=True)
class CommitDone:
    """An acknowledged commit. `alone`: Kafka takes no further commit of former owners.

    `failed`: partition → why its commit failed; the outcome of such a commit is unknown.
    """

    alone: bool = False
    failed: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedBounds:
    """The bounds of each partition known to Kafka. `at`: the offsets found for the requested times."""

    bounds: Mapping[int, Bounds]
    at: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedOffsets:
    """The log's end of each partition known to Kafka, and the requested beginnings."""

    ends: Mapping[int, int]
    beginnings: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkClaimed:
    """The sink's token and position of each partition."""

    found: Mapping[int, SinkEntry]


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed request to the brokers or the sink; the outcome of a failed commit is unknown.

    `refused`: the group has subscribed members. `fenced`: partitions that have another owner according to the broker.
    `away`: the sink does not answer.
    """

    reason: str
    refused: bool = False
    fenced: tuple[int, ...] = ()
    away: bool = False


Result: TypeAlias = FetchedOffsets | CommitDone | ListedBounds | ListedOffsets | SinkClaimed | Failed


def perform(offsets: GroupOffsets, topic: str, work: Work, sink: TransactionalSink | None = None) -> Result:
    """Send a request to Kafka, or to the sink that keeps the positions. Blocks until the answer."""
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
    writer = Writer(identity.cluster, topic, claim.topic_id, identity.consumer, claim.partition_count, claim.states)
    if sink is None:
        return Failed("positions are to be claimed and no sink is known")
    try:
        return SinkClaimed(sink.claim(writer, claim.tokens, claim.forget))
    except SinkUnavailable as error:
        return Failed(str(error), away=True)
    except CoordinatorError as error:
        return Failed(error.told)
    except BaseException as error:  # user code in a sink may raise anything; without an answer the topic would stop
        log.exception("the sink failed to take claims")
        return Failed(f"the sink failed to take claims ({type(error).__name__}: {error})")
