"""A consumer's held partitions, owed releases and rejected grants of one topic: data and views, no rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from coordinator_tasks.core.model import Handoff, Token, TopicNode
from coordinator_tasks.core.protocol.holding import Grant
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.passes import Passes
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.stalls import Stalls
from spark_apps.agent.ownership.work import Commit, Work
from spark_apps.agent.settings import Terms


@dataclass(slots=True)
class OwedRelease:
    """An owed release of a partition that does not run here. The committed offset has to be fetched first."""

    entry: Handoff
    born: int
    unknown: bool = False  # no committed offset exists, so the log's bounds decide


@dataclass(frozen=True, slots=True)
class RejectedGrant:
    """The rejection of grants of this topic id up to `epoch`. `by`: the token that fenced this consumer, if any."""

    epoch: int
    topic_id: str
    by: Token | None = None


@dataclass(slots=True)
class Holdings:
    """By partition: `held`, `owed_releases`, `rejected`, and `answered` (entry, offset and token of a release to post).

    `accepted`: the topic node in force. `group`: the group for requests to Kafka; empty = the accepted node's group.
    `awaiting`: the accepted node names this consumer as taker of an unreleased partition. `first`: the application's
    options for new groups. `request`: the open request to Kafka or the sink; `number`: number of the last request.
    `fail_on_data_loss`: the application's option; `None` if the consumer has no such option, which acts like true.
    `fences`: number of holdings ended by a newer token. `described`: the topic's id and partition count, as last read
    from Kafka.
    """

    held: dict[int, OwnedPartition] = field(default_factory=dict)
    owed_releases: dict[int, OwedRelease] = field(default_factory=dict)
    answered: dict[int, tuple[Handoff, int, Token]] = field(default_factory=dict)
    rejected: dict[int, RejectedGrant] = field(default_factory=dict)
    accepted: TopicNode | None = None
    group: str = ""
    awaiting: bool = False
    first: FirstOffsets | None = None
    terms: Terms = field(default_factory=Terms)
    stalls: Stalls = field(default_factory=Stalls)
    fail_on_data_loss: bool | None = None
    request: Work | None = None
    number: int = 0
    fences: int = 0
    described: tuple[str, int] = ("", 0)

    # Views -----------------------------------------------------------------------------------------------------------

    @property
    def topic_id(self) -> str:
        """Return Kafka's topic id in the accepted node; empty without a node."""
        return self.accepted.topic_id if self.accepted is not None else ""

    @property
    def partition_count(self) -> int:
        """Return the topic's partition count in Kafka; 0 if unknown."""
        topic_id, count = self.described
        return count if topic_id == self.topic_id else 0

    @property
    def generation(self) -> str:
        """Return the accepted node's generation; empty without a node."""
        return self.accepted.generation if self.accepted is not None else ""

    @property
    def in_other_group(self) -> bool:
        """Return whether the topic was added again with another group. Requests to Kafka still use the old group."""
        return self.accepted is not None and self.group not in ("", self.accepted.group_id)

    @property
    def paused(self) -> frozenset[int]:
        """Return the topic's paused partitions, which are not read."""
        return self.accepted.paused if self.accepted is not None else frozenset()

    @property
    def due(self) -> dict[int, OwnedPartition]:
        return {p: h for p, h in self.held.items() if h.due}

    @property
    def fetchable(self) -> tuple[int, ...]:
        """Return the partitions whose committed entries are needed."""
        return tuple(sorted({p for p, h in self.held.items() if not h.fenced} | self.owed_releases.keys()))

    @property
    def unknown(self) -> tuple[int, ...]:
        """Return the partitions without any position. The log's bounds decide where these partitions begin."""
        held = {p for p, h in self.held.items() if h.phase is Phase.LISTING and not h.closing}
        return tuple(sorted(held | {p for p, one in self.owed_releases.items() if one.unknown}))

    @property
    def starting(self) -> bool:
        """Return whether a granted partition is soon ready."""
        soon = (Phase.FETCHING, Phase.STARTING)
        return any(h.phase in soon and not h.closing for h in self.held.values())

    @property
    def expecting(self) -> bool:
        """Return whether a partition is on its way to this consumer: its release is awaited, or it is not ready yet."""
        return self.awaiting or any(h.phase is not Phase.READY and not h.closing for h in self.held.values())

    def ready(self) -> dict[int, OwnedPartition]:
        """Return the partitions that have started and are neither paused nor being closed."""
        paused = self.paused
        return {p: h for p, h in self.held.items() if h.phase is Phase.READY and not h.closing and p not in paused}

    def reach(self) -> dict[int, tuple[int, int]]:
        """Return the passed offset and the last read log end of each held partition."""
        return {
            p: (min(h.passed, h.log.offset), h.log.offset) for p, h in self.held.items() if h.log.offset is not None
        }

    def of_request(self, partitions: Iterable[int], number: int) -> list[tuple[int, OwnedPartition]]:
        """Return the holdings that request `number` was about, without holdings that began after the request."""
        found = [(p, self.held[p]) for p in partitions if p in self.held]
        return [(p, h) for p, h in found if number > h.born]

    def committing(self, partition: int) -> bool:
        return isinstance(self.request, Commit) and partition in self.request.offsets

    def is_rejected(self, partition: int, epoch: int) -> bool:
        rejected = self.rejected.get(partition)
        # A rejection does not apply to a recreated topic, which has another id.
        return rejected is not None and rejected.topic_id == self.topic_id and epoch <= rejected.epoch

    # Changes ---------------------------------------------------------------------------------------------------------

    def acquire(self, grant: Grant, now: float) -> None:
        phase = Phase.CLAIMING if self.terms.claims else Phase.FETCHING
        passes = Passes(granted_at=now)
        self.held[grant.partition] = OwnedPartition(grant, self.topic_id, self.number, phase, passes=passes)

    def reject(self, held: OwnedPartition, by: Token | None = None) -> None:
        """Reject this holding's grant, so that the partition is not taken up again under the grant."""
        self.rejected[held.grant.partition] = RejectedGrant(held.token.epoch, held.topic_id, by)

    def stop(self, held: OwnedPartition) -> None:
        """End the holding, and reject its grant."""
        held.closing = True
        self.reject(held)

    def fence(self, held: OwnedPartition, by: Token | None = None) -> None:
        """Note a newer owner: commit nothing more, and reject the grant."""
        self.fences += not held.fenced
        held.fence()
        self.reject(held, by)

    def look_soon(self) -> None:
        """Fetch again before relying on committed entries: another consumer may own our partitions."""
        for held in self.held.values():
            held.looked_at = -inf
