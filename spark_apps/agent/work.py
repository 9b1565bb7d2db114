"""What a holder asks of Kafka, as values: the holder says what is due, somebody performs it and hands back the result.

Between the two anything may happen, as between any two requests: the holder judges a result by when it was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator_tasks.core.errors import CommitFenced, GroupInUse, KafkaUnavailable, Refused
from coordinator_tasks.core.fence import Bounds
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import GroupOffsets


@dataclass(frozen=True, slots=True)
class Look:
    """Read the committed entries of `partitions`, in one request. `holding`: all that is held of this topic id by then."""

    partitions: tuple[int, ...]
    number: int
    topic_id: str = field(default="", compare=False)
    holding: Mapping[int, Token] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit these offsets with their metadata, in one request."""

    offsets: Mapping[int, Committed]
    number: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Ask for the first offset and the one after the last of `partitions`, where no position is known.

    `times_ms`: for some of them also for the first record at or after that time, in milliseconds since 1970.
    """

    partitions: tuple[int, ...]
    number: int
    times_ms: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measure:
    """Ask for the offset after the last readable record of `partitions`, in one request."""

    partitions: tuple[int, ...]
    number: int


Work: TypeAlias = Look | Commit | Survey | Measure


@dataclass(frozen=True, slots=True)
class Looked:
    """The committed entries that were there, and the id of the topic afterwards; empty = Kafka has no such topic.

    Entries alone cannot show that a topic was created anew: a commit may have reached the new one already.
    """

    entries: Mapping[int, Committed]
    topic_id: str


@dataclass(frozen=True, slots=True)
class Done:
    """The commit is acknowledged."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The bounds of each partition that Kafka knows; in `at` the offsets that were asked for by time and exist."""

    bounds: Mapping[int, Bounds]
    at: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """The end of each partition that Kafka knows."""

    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Failed:
    """The brokers did not do it, or a commit's outcome is unknown. `refused`: the group has subscribed members.

    `fenced`: partitions of a commit that somebody else has taken over, by what the broker says.
    """

    reason: str
    refused: bool = False
    fenced: tuple[int, ...] = ()


Result: TypeAlias = Looked | Done | Surveyed | Measured | Failed


def perform(offsets: GroupOffsets, topic: str, work: Work) -> Result:
    """Ask Kafka; blocks as long as the port does."""
    try:
        match work:
            case Look(partitions=partitions, topic_id=topic_id, holding=holding):
                offsets.hold(topic, topic_id, holding)
                return Looked(offsets.committed(topic, partitions), offsets.topic_id(topic))
            case Commit(offsets=entries):
                offsets.commit(topic, entries)
                return Done()
            case Survey(partitions=partitions, times_ms=times_ms):
                first, end = offsets.beginnings(topic, partitions), offsets.ends(topic, partitions)
                bounds = {p: Bounds(first[p], end[p]) for p in first.keys() & end.keys()}
                return Surveyed(bounds, offsets.at_times(topic, times_ms))
            case Measure(partitions=partitions):
                return Measured(offsets.ends(topic, partitions))
    except CommitFenced as error:
        return Failed(str(error), fenced=error.partitions)
    except (KafkaUnavailable, Refused) as error:
        return Failed(str(error), refused=isinstance(error, GroupInUse))
