"""What a decision is made from: one topic as stored, and the world as observed after the topic was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.assignors import Strategies
from coordinator_tasks.core.assignors.weights import Totals
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.model import (
    Answer,
    Committed,
    ConsumerStatus,
    Directive,
    IdClaim,
    Member,
    Release,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """The waiting times and limits of a site, in seconds where a name ends in `_s`.

    `hold_absent`: a person, never the platform, isolates a consumer that is absent and silent. `pack_over_bytes`: a topic's node
    that is longer is packed, if all who act on it can read that.
    """

    settle_s: float = 1.0
    settle_max_s: float = 5.0
    absent_after_s: float = 30.0
    hold_absent: bool = False
    rejoin_grace_s: float = 0.0
    stuck_after_s: float = 120.0
    flap_window_s: float = 600.0
    flap_registrations: int = 4
    flap_backoff_s: float = 15.0
    max_restarts: int = 3
    max_write_bytes: int = 900 * 1024
    pack_over_bytes: int = 64 * 1024
    strategies: Strategies = field(default_factory=Strategies)


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as read from ZooKeeper: `partitions` are its partition nodes, `releases` what they hold.

    `description` is what Kafka says, or `None` while the brokers do not answer; `missing` = Kafka has no such topic.
    `packed`: the node is stored in the packed form.
    """

    config: TopicConfig
    node: TopicNode | None
    state: TopicState | None
    partitions: tuple[int, ...]
    releases: Mapping[int, Release] = field(default_factory=dict)
    description: TopicDescription | None = None
    missing: bool = False
    packed: bool = False

    @property
    def topic(self) -> str:
        return self.config.topic


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the topic, observed after the topic was read.

    - `answers`: of the consumers' own interfaces.
    - `committed`: the group's offsets of this topic, for the case that ZooKeeper was lost; `None` = the brokers did
      not answer.
    - `loads`: consumer → how many partitions of other topics it has; `totals`: consumer → what it measures over all
      topics.
    - `fresh`: a random text that names a new generation or rebalance.
    - `unclear`: consumer → what of its nodes cannot be read; it never counts as gone.
    - `doubted`: consumer → why its answer on this topic does not count. Both kinds keep what they have and get
      nothing more.
    """

    now: float
    members: Mapping[str, Member] = field(default_factory=dict)
    claims: Mapping[str, IdClaim] = field(default_factory=dict)
    directives: Mapping[str, Directive] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    committed: Mapping[int, Committed] | None = field(default_factory=dict)
    loads: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, Totals] = field(default_factory=dict)
    fresh: str = ""
    unclear: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)

    def life(self, consumer: str, incarnation: int) -> Life:
        """What is known of this incarnation."""
        return Life(
            consumer,
            incarnation,
            self.members.get(consumer),
            self.claims.get(consumer),
            self.directives.get(consumer),
            self.answers.get(consumer),
            self.now,
        )

    def status(self, consumer: str) -> ConsumerStatus | None:
        """The consumer's answer, if it gave one."""
        answer = self.answers.get(consumer)
        return answer if isinstance(answer, ConsumerStatus) else None


class Presence(StrEnum):
    """What we know of one incarnation of a consumer."""

    LIVE = "live"
    ISOLATED = "isolated"
    GONE = "gone"
    DETACHED = "detached"  # not registered but answers, or not clear: keeps its partitions, is no target
    ABSENT = "absent"  # not registered and silent: it may still run


LOST = frozenset({Presence.ISOLATED, Presence.GONE})
"""These count as closed: others may have what they held."""
