"""One topic's figures for a consumer's metrics: an immutable copy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Condition, StateSize


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """`position`: all earlier offsets have passed the sink; `end`: the log's; `lag` in offsets, `lag_s` in seconds; `state`: of
    a stateful pipeline.

    `None` = unknown.
    """

    position: int
    end: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    state: StateSize | None = None


@dataclass(frozen=True, slots=True)
class OwnedFigures:
    """Figures of a topic.

    `held`: number of held partitions; `partitions`: read or paused partitions; `failing`: number of partitions failing
    in the sink or the pipeline.

    Since this process began with the topic: `fences` = holdings ended by a newer token; `offsets` that have passed the
    sink, in batches that took `batch_s` in total; `batch_buckets`: upper bounds in seconds, with the number of batches
    up to each; `dead_letters` = records that the pipeline could not process, skipped records included.
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
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """All topics of one incarnation. `condition`: as in the status; `reports`: number of reported problems.

    `registered`: whether a ZooKeeper session holds the registration.
    """

    consumer: str
    cluster: str
    incarnation: int
    condition: Condition
    registered: bool
    reports: int
    topics: Mapping[str, OwnedFigures] = field(default_factory=dict)
