"""What a consumer's metrics say of one topic: a copy of figures, which no later change reaches."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """`position`: everything before it has passed the sink; `end`: the log's; `lag` in offsets, `lag_s` in seconds.

    `None` = unknown.
    """

    position: int
    end: int | None = None
    lag: int | None = None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """`held`: partitions that are held; `partitions`: those that are read, or paused; `failing`: how many the sink or the pipeline fails at.

    Since this process has begun with the topic: `fences` = holdings that a newer token has ended; `offsets` that have passed the
    sink, in batches that took `batch_s` together; `batch_buckets`: upper bounds in seconds, and how many batches took no longer.
    """

    group: str
    acted_epoch: int
    held: int
    partitions: Mapping[int, PartitionFigures] = field(default_factory=dict)
    fences: int = 0
    offsets: int = 0
    batch_s: float = 0.0
    batch_buckets: tuple[tuple[str, int], ...] = (("+Inf", 0),)
    failing: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """All topics of one incarnation. `health`: the word of the status; `reports`: how many problems it reports.

    `registered`: whether it is, by a session with ZooKeeper.
    """

    consumer: str
    cluster: str
    incarnation: int
    health: str
    registered: bool
    reports: int
    topics: Mapping[str, TopicFigures] = field(default_factory=dict)
