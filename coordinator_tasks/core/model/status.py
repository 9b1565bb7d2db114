"""What a consumer answers for itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from coordinator_tasks.core.model.topic import LastPass, Token


@dataclass(frozen=True, slots=True)
class Taken:
    """How a consumer has taken up a partition; times in seconds by a clock that never jumps.

    `waited`: records that waited for its first batch: the log's end as known then, minus where it began; 0 if it found
    nothing left before. `ago_s`: how long before this answer its first record had passed the sink (`None` = none has).
    `batch_s`: how long that batch took. `released_s`: from its read of the release until then (`None` = there was none).
    `last_pass`: what the last commit of the owner before says.
    """

    waited: int
    ago_s: float | None = None
    batch_s: float = 0.0
    released_s: float | None = None
    last_pass: LastPass | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest stall of the partitions that a consumer kept while it acted on an epoch.

    `longest_s`: of `partition`, among `partitions` of them; `before_s`: the longest in the ten to twenty seconds before.
    """

    longest_s: float
    partition: int
    partitions: int
    before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Who has committed a partition under an older token than its owner's, and how long ago the owner last saw that.

    `by` is empty for a client without a token; `epoch`: of the older token, 0 = none.
    """

    by: str
    epoch: int
    ago_s: float


@dataclass(frozen=True, slots=True)
class RunningPartition:
    """One partition that a consumer runs. `position` is the next offset to process; `lag_records` is None if unknown.

    `started`: its start position is committed under `token`, and it was part of a planned batch or at the log's end.
    `rate`: records per second that are written to it; `record_bytes`: their average size; `None` if unknown.
    `closing`: it is no longer held, and a batch with it is running. `taken`: how it was taken up, once that is known.
    `overwritten`: whose commit the owner has written over, within the last five minutes.
    """

    position: int
    token: Token
    started: bool
    closing: bool = False
    lag_records: int | None = None
    rate: float | None = None
    record_bytes: float | None = None
    taken: Taken | None = None
    overwritten: Overwritten | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What a consumer cannot process at present, and tries again: a sink or a pipeline fails for the reason `why`.

    `partitions`: those that wait; empty = the topic is not read at all. It has failed `tries` times, since `for_s` seconds;
    `next_s`: seconds until the next try, 0 = it is under way or due. `away`: the sink itself does not answer.
    """

    partitions: tuple[int, ...]
    why: str
    tries: int = 1
    for_s: float = 0.0
    next_s: float = 0.0
    away: bool = False

    def concerns(self, partition: int) -> bool:
        """Whether the partition is not processed for this reason."""
        return not self.partitions or partition in self.partitions


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """What a consumer says of one topic. `acted_epoch` 0 = it has acted on nothing yet.

    `held`: partition → epoch of everything that its accepted node lets it run or take over, started or not. After a
    loss of ZooKeeper nothing else tells it. `stalls`: epoch → how what it kept was disturbed, of the last few epochs.
    """

    generation: str
    acted_epoch: int
    held: Mapping[int, int] = field(default_factory=dict)
    running: Mapping[int, RunningPartition] = field(default_factory=dict)
    query_alive: bool = True
    reports: tuple[str, ...] = ()
    last_batch: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[int, Stall] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """The answer of a consumer's own interface.

    `asked_s`, `answered_s`: between these monotonic times of the one who asked it was made (0 = unknown).
    """

    consumer: str
    cluster: str
    incarnation: int
    boot_id: str
    health: str
    topics: Mapping[str, TopicStatus] = field(default_factory=dict)
    reports: tuple[str, ...] = ()
    asked_s: float = field(default=0.0, compare=False)
    answered_s: float = field(default=0.0, compare=False)

    @property
    def leaves(self) -> bool:
        """Whether the process is about to end: it closes what it runs, and begins nothing more."""
        return self.health == "leaving" or self.health.startswith("failed: ")


class Silence(StrEnum):
    """Why a consumer's interface gave no usable answer."""

    REFUSED = "refused"  # the host refuses the connection: nobody listens on the port
    SILENT = "silent"  # no answer within the limit, or the host drops packets
    FOREIGN = "foreign"  # something else answers there (another id, cluster or incarnation)
    BROKEN = "broken"  # an answer that is not a status
    UNASKED = "unasked"  # a bound of the look was used up: nothing is known


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No usable answer from the consumer's interface, and what happened in a sentence."""

    silence: Silence
    detail: str


Answer: TypeAlias = ConsumerStatus | Unreachable
