"""The answers of the consumers' own interfaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from coordinator_tasks.core.model.topic import LastPass, Token


@dataclass(frozen=True, slots=True)
class Taken:
    """How a consumer has taken up a partition. Seconds come from a monotonic clock.

    - `waited`: number of records that waited for the first batch: the known end of the log minus the first offset. It
      is 0 if the consumer saw no waiting record.
    - `ago_s`: seconds from the first record's pass of the sink to this answer; `None` if no record has passed.
    - `batch_s`: duration of the first batch.
    - `released_s`: seconds from reading the release to the first record's pass of the sink; `None` without a release.
    - `last_pass`: `last_pass` of the previous owner's last commit.
    """

    waited: int
    ago_s: float | None = None
    batch_s: float = 0.0
    released_s: float | None = None
    last_pass: LastPass | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest stall of the partitions that a consumer kept while acting on an epoch.

    `partitions`: number of kept partitions. `partition` had the longest stall of these, of `longest_s`. `before_s`: the
    longest stall in the ten to twenty seconds before the epoch.
    """

    longest_s: float
    partition: int
    partitions: int
    before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A foreign commit that the owner has overwritten: under an older token than the owner's, or without a token.

    `by`: the committer; empty without a token. `epoch`: epoch of the older token; 0 without a token. The last such
    commit was seen `ago_s` ago.
    """

    by: str
    epoch: int
    ago_s: float


@dataclass(frozen=True, slots=True)
class StateSize:
    """The state of a partition: rows of `consumer_state`, bytes of their values, and the earliest timer in ms since 1970."""

    rows: int
    value_bytes: int
    first_timer_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RunningPartition:
    """One partition that a consumer runs. `position`: the next offset to process. `lag_records`: `None` if unknown.

    - `started`: the start position is committed under `token`, and a batch was planned with the partition, or nothing
      was left to read.
    - `rate`: records per second written to the partition. `record_bytes`: average record size; `None` if unknown.
    - `closing`: no longer held, but a batch with the partition is running.
    - `taken`: how the partition was taken up, once known.
    - `overwritten`: the foreign commit that the owner has overwritten within the last five minutes.
    - `state`: only of a stateful pipeline, after the present owner's first batch.
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
    state: StateSize | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Processing fails and is retried. `why`: the reason of the sink or the pipeline.

    `partitions`: the waiting partitions; empty if the topic is not read at all. `tries`: failed tries within `for_s`
    seconds. `next_s`: seconds until the next try; 0 if it is due or under way. `away`: the sink does not answer.
    """

    partitions: tuple[int, ...]
    why: str
    tries: int = 1
    for_s: float = 0.0
    next_s: float = 0.0
    away: bool = False

    def concerns(self, partition: int) -> bool:
        return not self.partitions or partition in self.partitions


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A consumer's status of one topic. `acted_epoch`: 0 before the first node.

    `held`: partition → epoch of every partition that the accepted node lets the consumer run or take over, even if not
    started. After a loss of ZooKeeper, only `held` tells which partitions the consumer may run. `stalls`: epoch → the
    longest stall of kept partitions, for the last few epochs.
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


class Condition(StrEnum):
    """The condition that a consumer reports of itself."""

    OK = "ok"
    STARTING = "starting"
    DETACHED = "detached"  # works without ZooKeeper
    LEAVING = "leaving"
    FAILED = "failed"  # cannot continue: the process is about to end
    STUCK = "stuck"
    FAILING = "failing"  # something fails and is tried again


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """The answer of a consumer's own interface. `health`: the `condition` and its reason, for a person.

    `asked_s`, `answered_s`: times of request and answer by the monotonic clock of the process that asks; 0 if unknown.
    """

    consumer: str
    cluster: str
    incarnation: int
    boot_id: str
    health: str
    topics: Mapping[str, TopicStatus] = field(default_factory=dict)
    reports: tuple[str, ...] = ()
    condition: Condition = Condition.OK
    asked_s: float = field(default=0.0, compare=False)
    answered_s: float = field(default=0.0, compare=False)

    @property
    def leaves(self) -> bool:
        """Return whether the process is about to end. Then its partitions close, and no partition starts."""
        return self.condition in (Condition.LEAVING, Condition.FAILED)


class Silence(StrEnum):
    """Why a consumer's interface gave no usable answer."""

    REFUSED = "refused"  # the host refuses the connection: no process listens on the port
    SILENT = "silent"  # no answer within the limit, or the host drops packets
    FOREIGN = "foreign"  # another program, id, cluster or incarnation answers
    BROKEN = "broken"  # an answer that is not a status
    UNASKED = "unasked"  # not asked, because the limit on requests was reached


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The interface gave no usable answer; `detail` says what happened."""

    silence: Silence
    detail: str


Answer: TypeAlias = ConsumerStatus | Unreachable


def topic_status(answer: Answer | None, topic: str) -> TopicStatus | None:
    """Return the answer's report of the topic; `None` without an answer, or if the answer does not name the topic."""
    return answer.topics.get(topic) if isinstance(answer, ConsumerStatus) else None


def running_in(answer: Answer | None, topic: str) -> Mapping[int, RunningPartition]:
    """Return the partitions that the answer reports as running; empty without an answer."""
    status = topic_status(answer, topic)
    return status.running if status is not None else {}
