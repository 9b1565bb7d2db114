"""The data that the coordinator and the consumers share: frozen values without behaviour.

Partition numbers, epochs and incarnations are `int`; times are seconds since 1970 in `float`, in fields that end in
`_at`; durations end in `_s`. JSON names and versions are in `codec`, paths in `names`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeAlias


class State(StrEnum):
    """The state of a topic; it sums up its partitions."""

    INITIAL = "Initial"
    STARTING = "Starting"
    STABLE = "Stable"
    CLOSING = "Closing"


class StartRule(StrEnum):
    """Where a partition begins that has no committed offset (Kafka's `auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """Who may commit, compared by the epoch of acquisition first. The metadata of every committed offset holds it."""

    epoch: int
    incarnation: int
    generation: str = field(compare=False, default="")


@dataclass(frozen=True, slots=True)
class Handoff:
    """A partition moves from the one consumer that may run it to another one; `epoch` is that of the plan."""

    giver: str
    taker: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Ago:
    """How many seconds before it wrote a release its giver had done something, by a clock that never jumps.

    `read_s`: read the node with the hand-off. `passed_s`: its last record had passed the sink; `empty_s`: it last knew that
    nothing was left beyond what it had read (`None` = never in this ownership).
    """

    read_s: float | None = None
    passed_s: float | None = None
    empty_s: float | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """What the giver writes on the partition's node after its last commit.

    `epoch`: of the hand-off; `token`: under which `offset` was committed. `ago`: when it did what; it counts for the
    measure of the pause alone.
    """

    epoch: int
    by: str
    incarnation: int
    offset: int
    generation: str
    token: Token
    ago: Ago | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Seek:
    """Where a person wants a partition to continue. It counts as a commit under a token of `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicNode:
    """`/assignments/[TOPIC]`: everything that consumers act on. Every write raises `epoch` by at least one.

    - `assignments`: partition → consumer; `since`: partition → the epoch at which that holding began.
    - `handoff`: partition → its hand-off. A partition in neither is being closed everywhere, or has no owner.
    - `incarnations`: consumer → the incarnation that may run its partitions; another one runs nothing.
    - `guarded`: partitions whose last owner may still have a process, and has not released them. The new owner waits until
      its start commit has stood for longer than the commit time-out.
    - `supersedes`: generation → its largest acted epoch that went into this node. A consumer that acts on another
      generation accepts this node only if its own acted epoch is covered here.
    - `initial_partitions`: partitions with this number or a larger one appeared later and start at their beginning.
    - `seeks`: partition → where a person wants it to continue, kept until an owner confirms that it has started there.
    - `properties`: further consumer properties, none of them secret.
    """

    bootstrap_servers: str
    group_id: str
    epoch: int
    generation: str
    topic_id: str
    assignments: Mapping[int, str] = field(default_factory=dict)
    since: Mapping[int, int] = field(default_factory=dict)
    handoff: Mapping[int, Handoff] = field(default_factory=dict)
    incarnations: Mapping[str, int] = field(default_factory=dict)
    guarded: frozenset[int] = frozenset()
    supersedes: Mapping[str, int] = field(default_factory=dict)
    start: StartRule = StartRule.EARLIEST
    initial_partitions: int = 0
    paused: frozenset[int] = frozenset()
    removed: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    seeks: Mapping[int, Seek] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicState:
    """`/state/[TOPIC]`. A missing node is `Initial`.

    - `to_start`, `to_close`: consumer → partitions that it has not confirmed yet.
    - `epochs`: partition → the epoch of the plan that put it there.
    - `targets`: consumer → incarnation, of those that the last plan counted with; `planned`: a digest of everything
      else that it was made from. A difference from either causes the next plan.
    - `restarts`: consumer → how often it was told to start what it owns and does not run.
    - `recovered`: consumer → when its answers have led to recoveries; after several of them they do not count any more.
    - `rebalance`: its name from its first plan, at `began_at`, until Stable.
    """

    state: State
    to_start: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    to_close: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)
    rebalance: str = ""
    since_at: float = 0.0
    began_at: float = 0.0
    cause: str = ""
    targets: Mapping[str, int] = field(default_factory=dict)
    planned: str = ""
    restarts: Mapping[str, int] = field(default_factory=dict)
    recovered: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rollback:
    """A person wants the assignment as it was before `rebalance`; pins come before it, the strategy after it.

    - `assignments`: partition → consumer, also of partitions that stay.
    - `targets`: consumer → incarnation of those that could be given partitions then: the roll back ends when they change.
    - `for_s`: it ends so many seconds after `at` instead; 0 = when the targets change.
    """

    rebalance: str
    assignments: Mapping[int, str]
    targets: Mapping[str, int]
    by: str
    why: str
    at: float
    for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Split:
    """An upgrade reserves `partitions` for `consumers`, and keeps these from all other partitions.

    Pins and a roll back come before it. A side without a consumer that may be given partitions leaves its own to the other
    side. `app`: the fleet that is upgraded.
    """

    app: str
    consumers: tuple[str, ...]
    partitions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer to one plan: that with this `digest` of its inputs and moves. `granted` False = it is rejected."""

    digest: str
    granted: bool
    by: str
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """`/config/[TOPIC]`: what a person wants for this topic. An empty `strategy` is the cluster's."""

    topic: str
    topic_id: str
    bootstrap_servers: str
    group_id: str
    strategy: str = "balanced"
    parameters: Mapping[str, str] = field(default_factory=dict)
    start: StartRule = StartRule.EARLIEST
    initial_partitions: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[int, str] = field(default_factory=dict)
    paused: frozenset[int] = frozenset()
    frozen: bool = False
    removed: bool = False
    rollback: Rollback | None = None
    split: Split | None = None
    approval: Approval | None = None


CONFIGURED = tuple(one.name for one in fields(TopicConfig) if one.name in TopicNode.__dataclass_fields__)
"""What a topic's node repeats of its configuration."""
SEEKS, PROPERTIES, PACKED = "seeks", "properties", "packed"
FORMATS = (SEEKS, PROPERTIES, PACKED)
"""What this release reads in a topic's node and an older one does not: 0.1.0 none of it, 0.2.0 not the packed form. A consumer
that does not read it refuses such a node, and holds."""


@dataclass(frozen=True, slots=True)
class Member:
    """`/members/[CONSUMER]`: a registered consumer.

    `topics`: names and regular expressions; empty = any topic. `process`: the name of its process on its host, which
    its successor there asks about; empty = unknown. `formats`: the `FORMATS` that it reads. `release`: the one that it runs,
    empty = one that does not say it. `problem`: why its
    registration cannot be read; then nothing but its id is known.
    """

    consumer: str
    incarnation: int
    address: str
    boot_id: str
    rack: str = ""
    capacity: float = 1.0
    topics: tuple[str, ...] = ()
    direct: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    registered_at: float = 0.0
    process: str = ""
    formats: tuple[str, ...] = FORMATS
    problem: str = ""
    release: str = ""


class Ending(StrEnum):
    """How we know that an incarnation is over."""

    LEFT = "left"  # it left cleanly and said so by number
    REAPED = "reaped"  # its launcher saw all its processes end, or its successor on the same host found its own gone
    REFUSED = "refused"  # its own address refused for a session time-out


@dataclass(frozen=True, slots=True)
class Absence:
    """First seen absent at `since_at`; its address has refused every connection since `refused_at` (0 = it has not)."""

    incarnation: int
    since_at: float
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class IdClaim:
    """`/ids/[CONSUMER]`: the counter of incarnations, and what is known of the ended ones.

    - `address`, `boot_id`, `direct`, `process`: of the last registration, by incarnation `registered` (0 = unknown,
      because an older release has written it).
    - `answered`: the last incarnation whose interface has answered us.
    - `registrations`: the times of the last few; many of them in a short time show that the id flaps.
    - `reasons`: why some of the `ended` incarnations ended.
    - `version`: the znode's. A registration raises it, so that it guards every write that relies on an absence.
    """

    consumer: str
    incarnation: int
    address: str = ""
    boot_id: str = ""
    direct: bool = True
    answered: int = 0
    ended: Mapping[int, Ending] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    absence: Absence | None = None
    registrations: tuple[float, ...] = ()
    version: int = -1
    registered: int = 0
    process: str = ""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The consumer may run nothing.

    `incarnation` 0 = any; `readmit`: let it in when it confirms that it runs nothing.
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    until_at: float = 0.0
    readmit: bool = False


@dataclass(frozen=True, slots=True)
class Draining:
    """The consumer is to give all its partitions away.

    `incarnation` 0 = any, as a person wants it; else the incarnation itself wants to leave. `leaving`: the
    incarnation that was asked to end while a person's draining stands here (0 = none).
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    leaving: int = 0


MAX_RESTART_S = 86_400.0
"""How long a planned restart may last."""


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """The process of this `incarnation` ends, and a process of the same id is there before `until_at`.

    Its partitions wait for that one. `moves`: they move away meanwhile, and return; then `partitions` (by topic) are those
    that it had. `capacity`, `rack` and `attributes` are those of its registration, so that its absence causes no plan. After
    `until_at` it is as if it had never been asked for.
    """

    by: str
    why: str
    at: float
    until_at: float
    incarnation: int
    moves: bool = False
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    capacity: float = 1.0
    rack: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def holds(self, now: float) -> bool:
        """Whether it has not run out; one that begins further ahead than it lasts was noted by a clock that has jumped."""
        return 0 < self.until_at - now <= 2 * (self.until_at - self.at)


@dataclass(frozen=True, slots=True)
class Directive:
    """`/directives/[CONSUMER]`; `version` is the znode's (-1 = there is none)."""

    consumer: str
    isolation: Isolation | None = None
    draining: Draining | None = None
    version: int = -1
    restart: PlannedRestart | None = None


@dataclass(frozen=True, slots=True)
class FleetVersion:
    """What consumers of a fleet run; the fields are those of `Fleet`."""

    application: str
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`/fleet/[APP]`: the consumers that should run. `application` is the path of the Spark application.

    `environment`: variables of the consumers' processes, not secret. `code`: the version of the code; `{code}` in
    `application` and `arguments` stands for it. `replaced`: consumer → the incarnation that a redeployment ends.
    `name`: of the version that these fields are; `versions`: name → another one that it had, or that it gets.
    `runs`: consumer → the name of the version that it runs, if that is another one: only while an upgrade is under way.
    `problem`: what of it cannot be read and is left out; without an `application`, all of it.
    """

    app: str
    application: str
    consumers: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    version: int = -1
    problem: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    replaced: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    versions: Mapping[str, FleetVersion] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """How a consumer has taken up a partition; times in seconds by a clock that never jumps.

    `waited`: records that waited for its first batch: the log's end as known then, minus where it began; 0 if it found
    nothing left before. `ago_s`: how long before this answer its first record had passed the sink (`None` = none has).
    `batch_s`: how long that batch took. `released_s`: from its read of the release until then (`None` = there was none).
    """

    waited: int
    ago_s: float | None = None
    batch_s: float = 0.0
    released_s: float | None = None


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
class RunningPartition:
    """One partition that a consumer runs. `position` is the next offset to process; `lag_records` is None if unknown.

    `started`: its start position is committed under `token`, and it was part of a planned batch or at the log's end.
    `rate`: records per second that are written to it; `record_bytes`: their average size; `None` if unknown.
    `closing`: it is no longer held, and a batch with it is running. `taken`: how it was taken up, once that is known.
    """

    position: int
    token: Token
    started: bool
    closing: bool = False
    lag_records: int | None = None
    rate: float | None = None
    record_bytes: float | None = None
    taken: Taken | None = None


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


class Silence(StrEnum):
    """Why a consumer's interface gave no usable answer."""

    REFUSED = "refused"  # the host refuses the connection: nobody listens on the port
    SILENT = "silent"  # no answer within the limit, or the host drops packets
    FOREIGN = "foreign"  # something else answers there (another id, cluster or incarnation)
    BROKEN = "broken"  # an answer that is not a status


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No usable answer from the consumer's interface, and what happened in a sentence."""

    silence: Silence
    detail: str


Answer: TypeAlias = ConsumerStatus | Unreachable


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What Kafka says of a topic: its id, and its partitions 0..count-1.

    `racks`: partition → the racks of its replicas' brokers, the preferred leader's first; empty if brokers have no
    racks.
    """

    topic: str
    topic_id: str
    partition_count: int
    racks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed group offset, with what its metadata says; `token` is `None` if the metadata is empty or not ours."""

    offset: int
    token: Token | None = None
    owner: str = ""
    cluster: str = ""
    topic_id: str = ""


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
    def named(self) -> str:
        """The person, or the run that nobody has asked for."""
        return self.who or f"{self.dag} {self.run}"


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
    - `wait_s`: the longest wait of one of them because of the move; `None` = nothing waited. `least`: it waited at least so
      long, since nobody can say when the giver's last record passed.
    - `error_s`: the true wait lies within this of `wait_s`.
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
    rebalance, written when it is measured. `sequence`: the node's number (-1 before it is written).
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
    sequence: int = -1
