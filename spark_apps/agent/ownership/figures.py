"""One topic's figures for a consumer's metrics, as an immutable copy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Condition, StateSize


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """Figures of a partition; `None` = unknown.

    `position`: all earlier offsets have passed the sink. `end`: the end of the log. `lag` in offsets, `lag_s` in
    seconds. `state`: size of a stateful pipeline's state.
    """

    position: int
    end: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    state: StateSize | None = None


@dataclass(frozen=True, slots=True)
class OwnedFigures:
    """Figures of a topic.

    `held`: number of held partitions. `partitions`: figures of the read or paused partitions. `failing`: number of
    partitions that fail in the sink or the pipeline.

    Counted since this process took up the topic: `fences`: holdings ended by a newer token. `offsets`: offsets that
    have passed the sink. `batch_s`: total duration of their batches. `batch_buckets`: upper bound in seconds, and
    number of batches up to this bound. `dead_letters`: records that the pipeline could not process, including skipped
    records.
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
    """Figures of one incarnation. `condition`: as in the status. `reports`: number of reported problems.

    `registered`: whether the present ZooKeeper session holds the registration.
    """

    consumer: str
    cluster: str
    incarnation: int
    condition: Condition
    registered: bool
    reports: int
    topics: Mapping[str, OwnedFigures] = field(default_factory=dict)
