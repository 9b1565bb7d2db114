"""Contents of the history: moves, reasons, pauses, and actions with their authors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.model.cause import Cause
from coordinator_tasks.core.model.topic import State
from coordinator_tasks.core.names import spelled


class MoveKind(StrEnum):
    """How a partition changes hands."""

    START = "start"  # no possible owner: assigned at once
    HANDOFF = "handoff"  # from the only possible owner, who writes a release
    BARRIER = "barrier"  # several possible owners: all of them confirm the close first
    STOP = "stop"  # closed without a new owner
    ADOPT = "adopt"  # already running at this consumer (after ZooKeeper was lost or restored)
    RESTART = "restart"  # the same consumer starts its partition again


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's change of owner in a plan. An empty name means no consumer."""

    partition: int
    giver: str
    taker: str
    kind: MoveKind


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence that explains the owner or the move of these partitions."""

    text: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons of a plan: the strategy, a digest of all inputs, and sentences.

    - `moves`: about moved partitions. The history stores only this kind of sentence.
    - `stays`: about partitions that stay or have no owner.
    - `waits`: about partitions that owners cannot process.
    - `states`: about the state that owners keep of partitions.
    - `was_at`: of a reset of offsets, partition → committed offset before the reset, if any.
    - `undoes`: the rebalance of an earlier reset that this reset reverts.
    """

    strategy: str
    inputs: str
    summary: str
    moves: tuple[Reason, ...] = ()
    stays: tuple[Reason, ...] = ()
    was_at: Mapping[int, int] = field(default_factory=dict)
    undoes: str = ""
    waits: tuple[Reason, ...] = ()
    states: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Actor:
    """Author of a transition, by kind: `airflow` (dag, run, task, try), or `loop` and `command` (who)."""

    kind: str
    who: str = ""
    dag: str = ""
    run: str = ""
    task: str = ""
    attempt: int = 0

    @property
    def dag_name(self) -> str:
        """Return the DAG id as shown in Airflow: the site's prefix, then the command as the form spells it."""
        form = self.task and self.dag.endswith(self.task)
        return f"{self.dag.removesuffix(self.task)}{spelled(self.task)}" if form else self.dag

    @property
    def named(self) -> str:
        """Return the person, or the run if no person started it."""
        return self.who or f"{self.dag_name} {self.run}"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """An action's change of one field of a stored node (`config/orders`). `before` and `after` are shortened JSON."""

    node: str
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """`/history/:asked/[SEQ]`: a person's action, written in the action's own transaction.

    `actor`: Airflow's user with the run, or the operating system's user. `about`: the topic, consumer or fleet.
    """

    action: str
    about: str
    actor: Actor
    at: float
    why: str = ""
    changes: tuple[FieldChange, ...] = ()
    sequence: int = -1


@dataclass(frozen=True, slots=True)
class Pause:
    """How long one moved partition stood still. Times are ZooKeeper's, in seconds since 1970; `None` means unknown.

    - `last_at`: the giver's last record passed the sink. `released_at`: the giver's release was written. `first_at`:
      the taker's first record passed the sink.
    - `records`, `size`: number of records that waited for the taker's first batch, and their bytes if measured.
    - `wait_s`: the total: the longest wait of a record; `None` if no record waited. `error_s`: its largest error.
    - `least`: `wait_s` is a lower bound, counted from the plan or the release, because the giver did not report its
      last record. `most_s` is the upper bound, counted from the giver's last commit; `None` if unknown.
    - `usual_s`: the longest undisturbed stall of the same partition in the ten to twenty seconds before; `None` if
      unknown.
    """

    partition: int
    last_at: float | None = None
    released_at: float | None = None
    first_at: float | None = None
    records: int = 0
    size: int | None = None
    wait_s: float | None = None
    error_s: float = 0.0
    least: bool = False
    most_s: float | None = None
    usual_s: float | None = None

    @property
    def total(self) -> "Amount | None":
        """Return how long the partition stood still; `None` if no record waited."""
        if self.wait_s is None:
            return None
        return Amount(self.wait_s, self.most_s if self.least else self.wait_s)

    @property
    def extra(self) -> "Amount | None":
        """Return the total without the usual stall; `None` if no record waited, or the usual stall is unknown."""
        return None if self.total is None or self.usual_s is None else self.total.beyond(self.usual_s)


@dataclass(frozen=True, slots=True)
class Amount:
    """Seconds, from `least_s` to `most_s`; `None` without a known upper bound."""

    least_s: float
    most_s: float | None

    def beyond(self, usual_s: float) -> "Amount":
        """Return the amount less the usual stall, at least 0."""
        most_s = None if self.most_s is None else round(max(0.0, self.most_s - usual_s), 4)
        return Amount(round(max(0.0, self.least_s - usual_s), 4), most_s)


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The longest stall among unmoved partitions.

    `partitions`: number of unmoved partitions in the reports of `consumer` and all other consumers.
    """

    partitions: int
    longest_s: float
    partition: int
    consumer: str
    before_s: float


@dataclass(frozen=True, slots=True)
class Pauses:
    """The cost of a rebalance. `measured`: one entry per partition, sorted.

    `missing`: moved partitions without a measurement (yet). `left_out`: sentences about implausible answers.
    """

    measured: tuple[Pause, ...] = ()
    missing: int = 0
    unmoved: Unmoved | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """`/history/[TOPIC]/[SEQ]`: a transition, written together with the transition itself.

    - `lasted_s`: how long the topic was in `source`; `rebalance_s`: duration of the rebalance so far.
    - `incarnations`: consumer → the incarnation with the right to run partitions. Together with the moves, the
      incarnations tell which processes may have handled a partition.
    - `plan`: the strategy's reasons for its moves, if a strategy was asked.
    - `pauses`: only in the last record of a rebalance, added after the measurement.
    - `cause`: the `causes` in words; `unasked`: no person or program requested the cause.
    - `sequence`: the node's number (-1 before the write).
    """

    topic: str
    source: State
    target: State
    epoch: int
    generation: str
    rebalance: str
    cause: str
    actor: Actor
    at: float
    lasted_s: float
    rebalance_s: float
    moves: tuple[Move, ...] = ()
    confirmed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    incarnations: Mapping[str, int] = field(default_factory=dict)
    plan: Explanation | None = None
    pauses: Pauses | None = None
    unasked: bool = False
    sequence: int = -1
    causes: tuple[Cause, ...] = ()
