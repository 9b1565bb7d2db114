"""What the history keeps: moves, their reasons, pauses, and who asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.model.topic import State
from coordinator_tasks.core.names import spelled


class MoveKind(StrEnum):
    """How a partition changes hands."""

    START = "start"  # nobody may run it: assigned at once
    HANDOFF = "handoff"  # from its one possible owner by a release
    BARRIER = "barrier"  # several possible owners: all confirm closed first
    STOP = "stop"  # closed without a new owner
    ADOPT = "adopt"  # it runs there already (after ZooKeeper was lost or restored)
    RESTART = "restart"  # the same consumer starts again what it holds


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's change of owner in a plan; an empty name = nobody."""

    partition: int
    giver: str
    taker: str
    kind: MoveKind


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence that says why these partitions are where they are, or why they move."""

    text: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a plan is as it is: the strategy, a digest of everything that it was given, and its reasons.

    `moves`: of partitions that change hands; `stays`: of the others and of those without an owner (not kept in the
    history). Of a reset of offsets: `was_at` = partition → its committed offset before, if it had one; `undoes` = the
    rebalance whose reset this one takes back.
    """

    strategy: str
    inputs: str
    summary: str
    moves: tuple[Reason, ...] = ()
    stays: tuple[Reason, ...] = ()
    was_at: Mapping[int, int] = field(default_factory=dict)
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who ran a transition: kind `airflow` (dag, run, task, try), `loop` or `command` (who)."""

    kind: str
    who: str = ""
    dag: str = ""
    run: str = ""
    task: str = ""
    attempt: int = 0

    @property
    def dag_name(self) -> str:
        """The DAG as Airflow's pages show it: a form has the spelling of its command, after the prefix of the site."""
        form = self.task and self.dag.endswith(self.task)
        return f"{self.dag.removesuffix(self.task)}{spelled(self.task)}" if form else self.dag

    @property
    def named(self) -> str:
        """The person, or the run that nobody has asked for."""
        return self.who or f"{self.dag_name} {self.run}"


@dataclass(frozen=True, slots=True)
class Change:
    """A field of a stored node (`config/orders`) that an action has changed; `before` and `after` are JSON, shortened."""

    node: str
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Asked:
    """`/history/:asked/[SEQ]`: an action that a person asked for, written in the transaction that does it.

    `actor` is Airflow's user with the run, or the operating system's user; `about`: the topic, consumer or fleet.
    """

    action: str
    about: str
    actor: Actor
    at: float
    why: str = ""
    changes: tuple[Change, ...] = ()
    sequence: int = -1


@dataclass(frozen=True, slots=True)
class Pause:
    """How long one moved partition stood still. Times are ZooKeeper's, in seconds since 1970; `None` = unknown.

    - `last_at`: the giver's last record passed the sink; `released_at`: its release was written; `first_at`: the taker's
      first record passed the sink.
    - `records`, `size`: that waited for the taker's first batch, and their bytes where records are measured.
    - `wait_s`, the total: the longest that one of them waited; `None` = nothing waited. `error_s`: the true wait lies within
      this of `wait_s`.
    - `least`: the giver did not say when its last record passed, so `wait_s` counts from the plan or the release. It waited
      at most `most_s`, since the giver's last commit (`None` = unknown).
    - `usual_s`: the longest that the same partition stood still in the ten to twenty seconds before (`None` = unknown).
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
        """How long the partition stood still; `None` = nothing waited."""
        if self.wait_s is None:
            return None
        return Amount(self.wait_s, self.most_s if self.least else self.wait_s)

    @property
    def extra(self) -> "Amount | None":
        """The total without the usual; `None` = nothing waited, or the usual is unknown."""
        return None if self.total is None or self.usual_s is None else self.total.beyond(self.usual_s)


@dataclass(frozen=True, slots=True)
class Amount:
    """Seconds, from `least_s` to `most_s` (`None` = nobody knows how many at most)."""

    least_s: float
    most_s: float | None

    def beyond(self, usual_s: float) -> "Amount":
        """What is left of it without the usual; not below 0."""
        most_s = None if self.most_s is None else round(max(0.0, self.most_s - usual_s), 4)
        return Amount(round(max(0.0, self.least_s - usual_s), 4), most_s)


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The longest stall of a partition that did not move: of `partitions` that `consumer` and others report on."""

    partitions: int
    longest_s: float
    partition: int
    consumer: str
    before_s: float


@dataclass(frozen=True, slots=True)
class Pauses:
    """What a rebalance cost. `measured`: partition by partition, sorted.

    `missing`: moved partitions that nobody has measured (yet). `left_out`: sentences about answers that cannot be true.
    """

    measured: tuple[Pause, ...] = ()
    missing: int = 0
    unmoved: Unmoved | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """`/history/[TOPIC]/[SEQ]`: one transition, written in its own transaction.

    `lasted_s`: how long the topic was in `source`; `rebalance_s`: how long the rebalance has taken so far.
    `incarnations`: consumer → the incarnation that may run its partitions; with the moves they tell who may have
    processed what. `plan`: why the strategy moved what it moved, if one was asked. `pauses`: in the record that ends a
    rebalance, written when it is measured. `unasked`: nobody asked for its cause. `sequence`: the node's number (-1 before it is written).
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
