"""The offset ranges of a micro-batch, their JSON, and their tasks.

Pure. Spark's offset of a batch contains the ranges and the parallelism, so any process plans the same tasks from it.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from coordinator_tasks.core.names import partition_of
from spark_apps.errors import OffsetMalformed

VERSION = 1
MAX_OFFSET = 2**63 - 1
SMALL_RECORDS = 2_000
"""Up to so many records, a second task costs more time than it saves."""


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Offsets `start` (inclusive) to `end` (exclusive) of a partition, read under the holding of `token_epoch`."""

    partition: int
    start: int
    end: int
    token_epoch: int

    @property
    def size(self) -> int:
        """Return the number of offsets. There may be fewer records: compaction and transaction markers leave gaps."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class BatchOffset:
    """The offset of one batch of one topic: its ranges, for at most `parallelism` tasks. Batch 0 has no ranges.

    `piece`: with 0, a single task reads each partition's range. Otherwise a range is cut into pieces of `piece`
    offsets, and each piece is a task.
    """

    topic: str
    batch: int = 0
    parallelism: int = 1
    ranges: Mapping[int, Range] = field(default_factory=dict)
    piece: int = 0

    def following(self, ranges: Iterable[Range], parallelism: int, piece: int = 0) -> "BatchOffset":
        by_partition = {one.partition: one for one in sorted(ranges)}
        return BatchOffset(self.topic, self.batch + 1, parallelism, by_partition, piece)

    def after(self, batch: "BatchOffset") -> "BatchOffset":
        """Return the same ends, with the part of the ranges that `batch` has not covered."""
        passed = {p: one.end for p, one in batch.ranges.items()}
        left = {p: replace(one, start=min(one.end, max(one.start, passed.get(p, 0)))) for p, one in self.ranges.items()}
        return replace(self, ranges=left)


def encode_offset(offset: BatchOffset) -> dict[str, Any]:
    """Return an offset as a JSON object. Equal offsets give equal text, because Spark compares offsets as text."""
    return {
        "version": VERSION,
        "topic": offset.topic,
        "batch": offset.batch,
        "parallelism": offset.parallelism,
        "piece": offset.piece,
        "ranges": {str(p): [one.start, one.end, one.token_epoch] for p, one in sorted(offset.ranges.items())},
    }


def decode_offset(data: object) -> BatchOffset:
    """Read an offset from its JSON object; raises `OffsetMalformed`. Unknown fields of a known version are ignored."""
    if not isinstance(data, dict):
        raise _bad("is not a JSON object")
    version = data.get("version")
    if version != VERSION or isinstance(version, bool):
        raise _bad(f"has format version {version!r}, and this release reads {VERSION}")
    topic = data.get("topic")
    if not isinstance(topic, str) or not topic:
        raise _bad("names no topic")
    ranges = data.get("ranges")
    if not isinstance(ranges, dict):
        raise _bad("has no ranges")
    decoded = [_range(key, value) for key, value in ranges.items()]
    return BatchOffset(
        topic=topic,
        batch=_number(data.get("batch"), "batch"),
        parallelism=max(1, _number(data.get("parallelism", 1), "parallelism")),
        ranges={one.partition: one for one in sorted(decoded)},
        piece=_number(data.get("piece", 0), "piece"),
    )


def _range(key: object, value: object) -> Range:
    partition = partition_of(key) if isinstance(key, str) else None
    if partition is None:
        raise _bad(f"has {str(key)[:40]!r} in place of a partition number")
    if not isinstance(value, list) or len(value) != 3:
        raise _bad(f"has no [from, to, epoch] for partition {key}")
    start, end, epoch = (_number(one, f"partition {key}") for one in value)
    if end < start:
        raise _bad(f"has a range that ends before it begins ({start} to {end}) for partition {key}")
    return Range(partition, start, end, epoch)


def _number(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_OFFSET:
        raise _bad(f"has {value!r} in place of a whole number ({where})")
    return value


def _bad(problem: str) -> OffsetMalformed:
    return OffsetMalformed(f"the offset of a batch {problem}; start the query with a new checkpoint folder")


def behind(offset: BatchOffset) -> dict[str, Any]:
    """Return the lag of the partitions, whose ranges go from the committed position to the log's end.

    `lag` is by partition. Minimum, maximum and mean have the names of Spark's Kafka source.
    """
    lag = {str(p): one.size for p, one in sorted(offset.ranges.items())}
    sizes = list(lag.values()) or [0]
    return {
        "lag": lag,
        "minOffsetsBehindLatest": min(sizes),
        "maxOffsetsBehindLatest": max(sizes),
        "avgOffsetsBehindLatest": sum(sizes) / len(sizes),
    }


Group: TypeAlias = tuple[Range, ...]


def plan_tasks(offset: BatchOffset) -> tuple[Group, ...]:
    """Distribute the ranges over tasks of about equal size: the largest range first, always to the emptiest task.

    The result depends on the offset alone. Empty ranges get no task. With `piece`, every piece of a range is a task.
    """
    ranges = [one for one in offset.ranges.values() if one.size > 0]
    if offset.piece:
        return tuple((piece,) for one in ranges for piece in _pieces(one, offset.piece))
    small = sum(one.size for one in ranges) <= SMALL_RECORDS
    count = min(1 if small else offset.parallelism, len(ranges))
    groups: list[list[Range]] = [[] for _ in range(count)]
    loads = [0] * count
    for one in sorted(ranges, key=lambda item: (-item.size, item.partition)):
        emptiest = loads.index(min(loads))
        groups[emptiest].append(one)
        loads[emptiest] += one.size
    return tuple(tuple(sorted(group)) for group in groups)


def _pieces(one: Range, size: int) -> Iterator[Range]:
    """Return the parts of a range: of about equal size, with at most `size` offsets."""
    count = math.ceil(one.size / size)
    cuts = [one.start + one.size * number // count for number in range(count + 1)]
    for start, end in itertools.pairwise(cuts):
        yield Range(one.partition, start, end, one.token_epoch)


def piece_size(ranges: Iterable[Range], min_partitions: int | None, max_records: int | None) -> int:
    """Return the largest piece that gives about `min_partitions` tasks of at most `max_records` offsets.

    0 = whole ranges, several of which one task may read. As in Spark's source, ranges are cut for `min_partitions` only
    if there are fewer ranges, and rounding may give fewer tasks than wanted.
    """
    if min_partitions is None:
        return max_records or 0
    sizes = [one.size for one in ranges if one.size > 0]
    whole = max_records or max(sizes, default=1)
    if sum(math.ceil(size / whole) for size in sizes) >= min_partitions:
        return whole
    return min(whole, max(1, math.ceil(sum(sizes) / min_partitions)))


def admit(available: Iterable[Range], max_offsets: int | None) -> list[Range]:
    """Cut the available ranges to `max_offsets` in total, in proportion to their sizes; `None` = no limit.

    Each partition with unread records gets at least one offset, so that small partitions do not starve. So the total
    may exceed the limit. The rule is `KafkaMicroBatchStream.rateLimit` of Spark's Kafka source.
    """
    waiting = [one for one in available if one.size > 0]
    total = sum(one.size for one in waiting)
    if max_offsets is None or total <= max_offsets:
        return waiting
    return [_cut(one, max_offsets * one.size / total) for one in waiting]


def _cut(one: Range, share: float) -> Range:
    whole = math.ceil(share) if share < 1 else math.floor(share)
    return Range(one.partition, one.start, min(one.end, one.start + whole), one.token_epoch)
