"""ZooKeeper's data on a topic: node, state, configuration, and the releases of the partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from coordinator_tasks.core.model.cause import Cause


class State(StrEnum):
    """The state of a topic, which sums up its partitions."""

    INITIAL = "Initial"
    STARTING = "Starting"
    STABLE = "Stable"
    CLOSING = "Closing"


class StartRule(StrEnum):
    """Where a partition without a committed offset begins (Kafka's `auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """The right to commit, part of every commit's metadata. The token with the larger epoch of acquisition is newer. At
    equal epochs, the larger incarnation decides.
    """

    epoch: int
    incarnation: int
    generation: str = field(compare=False, default="")


@dataclass(frozen=True, slots=True)
class Handoff:
    """The move of a partition from its only possible owner to another consumer. `epoch` is the epoch of the plan."""

    giver: str
    taker: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Ago:
    """Seconds between the giver's last steps and its release, by a monotonic clock.

    - `read_s`: since the giver read the node with the hand-off.
    - `passed_s`: since the last record passed the sink.
    - `empty_s`: since the giver last knew that no further record waited; `None` if never in this ownership.
    - `usual_s`: not since a step, but the longest undisturbed stall of the partition in the ten to twenty seconds
      before.
    """

    read_s: float | None = None
    passed_s: float | None = None
    empty_s: float | None = None
    usual_s: float | None = None


@dataclass(frozen=True, slots=True)
class LastPass:
    """When a partition's records last passed the sink, or nothing was left to read; readable after the consumer's end.

    The moment is `after_s` seconds after the consumer read the topic's node of `epoch`. `usual_s`: as in `Ago`.
    """

    epoch: int
    after_s: float
    usual_s: float | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The giver's note on the partition's node after its last commit.

    `epoch`: the hand-off's epoch. `token`: the token of the commit of `offset`. `ago`: times of the giver's last steps,
    used only to measure pauses.
    """

    epoch: int
    by: str
    incarnation: int
    offset: int
    generation: str
    token: Token
    ago: Ago | None = field(default=None, compare=False)


class StateOnReset(StrEnum):
    """What happens to a partition's state when a person resets the offset."""

    KEEP = "keep"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Seek:
    """The offset at which a person wants a partition to continue. The offset counts as a commit under a token of `epoch`.

    `state`: the person's choice for the state of a stateful pipeline; `None` = as the pipeline declares.
    """

    offset: int
    epoch: int
    state: StateOnReset | None = None


@dataclass(frozen=True, slots=True)
class TopicNode:
    """`/assignments/[TOPIC]`: everything that consumers act on. Every write raises `epoch` by at least 1.

    - `assignments`: partition → consumer. `since`: partition → the epoch at which the holding began.
    - `handoff`: partition → its hand-off. A partition in neither map is being closed everywhere, or has no owner.
    - `incarnations`: consumer → the incarnation with the right to run partitions; other incarnations run nothing.
    - `guarded`: partitions not released by a last owner whose process may still live. The new owner waits until the
      start commit has survived the commit time-out.
    - `supersedes`: generation → the largest acted epoch that went into this node. A consumer on another generation
      accepts this node only if the consumer's acted epoch is covered here.
    - `initial_partitions`: partitions from this number on appeared later and start at their beginning.
    - `seeks`: partition → the offset requested by a person, kept until an owner confirms the start there.
    - `properties`: further consumer properties without secrets.
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

    - `to_start`, `to_close`: consumer → unconfirmed partitions.
    - `epochs`: partition → the epoch of the plan that started or closed the partition.
    - `targets`: consumer → incarnation of the consumers in the last plan. `planned`: a digest of all other inputs of
      the plan. A change of `targets` or of the digest causes the next plan.
    - `restarts`: consumer → number of orders to start idle partitions.
    - `recovered`: consumer → times of the recoveries that the consumer's answers caused. After several recoveries these
      answers no longer count.
    - `cause`: the `causes` of the last plan in words.
    - `rebalance`: name of the rebalance, from its first plan at `began_at` until Stable.
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
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Rollback:
    """A person's request to restore the assignment from before `rebalance`.

    Pins take precedence, and the strategy places the remaining partitions.

    - `assignments`: partition → consumer, also of partitions that stay.
    - `targets`: consumer → incarnation of the targets at that time. The roll back ends when the targets change.
    - `for_s`: if not 0, the roll back ends this many seconds after `at`, and not when the targets change.
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
    """An upgrade reserves `partitions` for `consumers`, and gives these consumers no other partitions.

    Pins and a roll back take precedence. A side without a possible consumer leaves its partitions to the other side.
    `app`: the upgraded fleet.
    """

    app: str
    consumers: tuple[str, ...]
    partitions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer to the plan with this `digest` of inputs and moves. `granted`: False means rejected."""

    digest: str
    granted: bool
    by: str
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """`/config/[TOPIC]`: a person's settings for this topic. An empty `strategy` means the cluster's strategy."""

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
"""Fields of a topic's configuration that the topic's node repeats."""
SEEKS, PROPERTIES, PACKED, SEEK_STATE = "seeks", "properties", "packed", "seek_state"
FORMATS = (SEEKS, PROPERTIES, PACKED, SEEK_STATE)
"""Fields of a topic's node that older releases cannot read. Release 0.1.0 reads none of them, 0.2.0 neither the packed
form nor the state of a seek. Without support for a field, a consumer refuses the node, and holds; but an older consumer
ignores the state of a seek."""
