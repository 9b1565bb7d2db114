"""What ZooKeeper holds of a topic: its node, its state, its configuration, and the releases of its partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum


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
    nothing was left beyond what it had read (`None` = never in this ownership). `usual_s` is no time ago: the longest stall of the
    partition in the ten to twenty seconds before.
    """

    read_s: float | None = None
    passed_s: float | None = None
    empty_s: float | None = None
    usual_s: float | None = None


@dataclass(frozen=True, slots=True)
class LastPass:
    """When the committed records of a partition had passed the sink, in a form that outlives their consumer.

    They passed `after_s` after the consumer had read the topic's node of `epoch`. `usual_s`: as in `Ago`.
    """

    epoch: int
    after_s: float
    usual_s: float | None = None


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
