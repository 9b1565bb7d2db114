"""Inputs of a decision: one stored topic, and the world observed after reading the topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from coordinator_tasks.core.assignors import Strategies
from coordinator_tasks.core.assignors.weights import Totals
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.question import Together
from coordinator_tasks.core.measure.lag_moments import MOST_PARTITIONS
from coordinator_tasks.core.model import (
    Answer,
    Committed,
    ConsumerStatus,
    Directive,
    IdClaim,
    Member,
    Release,
    RunningPartition,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
    running_in,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """The waiting times and limits of a site, in seconds where a name ends in `_s`."""

    settle_s: float = 1.0
    """A plan waits until membership has not changed for this time."""
    settle_max_s: float = 5.0
    """A plan waits no longer than this time from the first change of membership on."""
    absent_after_s: float = 30.0
    """A consumer that is not registered and does not answer for this time is isolated, and other consumers get its
    partitions. If the process was only suspended, it has to start again. Where Kafka or the sink refuses the former
    owner (`fence=transactional`, exactly once), a value of `1` costs only this start.
    """
    hold_absent: bool = False
    """`true` = only a person, never the platform, isolates a consumer that is absent and silent."""
    rejoin_grace_s: float = 0.0
    """How long the partitions of a consumer with a known end wait for a new process with the same id."""
    stuck_after_s: float = 120.0
    """A person is asked about a topic that is not Stable after this time."""
    flap_window_s: float = 600.0
    """Time window for counting an id's registrations."""
    flap_registrations: int = 4
    """An id with this many registrations in `flap_window_s`, and without partitions, gets none for `flap_backoff_s`."""
    flap_backoff_s: float = 15.0
    """Back-off of a flapping id, from the last registration on; each further registration doubles the time.
    `flap_registrations` / 2 ends with an error in a row (at least two) have the same effect.
    """
    max_restarts: int = 3
    """How often a consumer is told to restart owned partitions that do not run; then a person is asked."""
    max_write_bytes: int = 900 * 1024
    """The largest transaction of a plan; ZooKeeper's own limit is 1 MB."""
    pack_over_bytes: int = 4 * 1024
    """A topic's node with more bytes is packed, if all consumers of the topic can read the form; `1000000` = never."""
    lag_partitions: int = MOST_PARTITIONS
    """Maximum partitions whose lag is kept for an hour, for trends and Burrow's status; the log says how many are left
    out. ZooKeeper holds 60 samples of 10 to 24 bytes a partition in memory.
    """
    history_bytes: int = 64 * 1024 * 1024
    """Maximum bytes of the records of rebalances of all topics; ZooKeeper holds the records in memory. The oldest
    records of a topic above an equal share are deleted; `export-history` keeps records in a file.
    """
    strategies: Strategies = field(default_factory=Strategies)

    @property
    def flap_failures(self) -> int:
        """Return the number of failed ends in a row that count like `flap_registrations`; a single failure never does."""
        return max(2, self.flap_registrations // 2)


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as read from ZooKeeper: `partitions` are the partition nodes, `releases` their content.

    `description`: Kafka's description; `None` while the brokers do not answer. `missing`: Kafka has no such topic.
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

    @property
    def owners(self) -> Mapping[int, str]:
        return self.node.assignments if self.node is not None else {}


class Answers(dict[str, Answer]):
    """The answers of one look. They never change, so they have an index: few of thousands of consumers name a topic."""

    @cached_property
    def by_topic(self) -> Mapping[str, Mapping[str, ConsumerStatus]]:
        """Return topic → consumers that name the topic, by name."""
        found: dict[str, dict[str, ConsumerStatus]] = {}
        for consumer in sorted(self):
            answer = self[consumer]
            if isinstance(answer, ConsumerStatus):
                for topic in answer.topics:
                    found.setdefault(topic, {})[consumer] = answer
        return found


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the topic, observed after reading the topic.

    - `answers`: the answers of the consumers' own interfaces.
    - `committed`: the group's offsets of this topic, in case ZooKeeper was lost; `None` if the brokers did not answer.
    - `loads`: consumer → number of partitions of other topics. `totals`: consumer → loads measured over all topics.
    - `fresh`: a random text to name a new generation or rebalance.
    - `unclear`: consumer → description of unreadable nodes. An unclear consumer never counts as gone.
    - `doubted`: consumer → why the answer on this topic does not count. Unclear and doubted consumers keep their
      partitions and get no more.
    - `together`: the joint plan of all topics; `None` if the topic is planned alone.
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
    together: Together | None = field(default=None, compare=False, repr=False)

    def life(self, consumer: str, incarnation: int) -> Life:
        return Life(
            consumer,
            incarnation,
            self.members.get(consumer),
            self.claims.get(consumer),
            self.directives.get(consumer),
            self.answers.get(consumer),
            self.now,
        )

    def knows(self, consumer: str) -> bool:
        """Return whether ZooKeeper has a registration or a claim of this consumer, perhaps unreadable."""
        return consumer in self.members or consumer in self.claims or consumer in self.unclear

    def status(self, consumer: str) -> ConsumerStatus | None:
        answer = self.answers.get(consumer)
        return answer if isinstance(answer, ConsumerStatus) else None

    def running(self, consumer: str, topic: str, partition: int) -> RunningPartition | None:
        """Return the consumer's report of a partition; `None` if the consumer does not report running it."""
        return running_in(self.answers.get(consumer), topic).get(partition)

    def naming(self, topic: str) -> Mapping[str, ConsumerStatus]:
        """Return the answers that name the topic, by the consumers' names."""
        answers = self.answers if isinstance(self.answers, Answers) else Answers(self.answers)
        return answers.by_topic.get(topic, {})


class Presence(StrEnum):
    """The known presence of an incarnation of a consumer."""

    LIVE = "live"
    ISOLATED = "isolated"
    GONE = "gone"
    DETACHED = "detached"  # unregistered but answers, or its nodes are unreadable: keeps its partitions, gets no more
    ABSENT = "absent"  # unregistered and silent: may still run


LOST = frozenset({Presence.ISOLATED, Presence.GONE})
"""Incarnations that count as closed, so that their partitions may go to other consumers."""
