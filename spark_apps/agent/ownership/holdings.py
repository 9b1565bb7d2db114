"""A consumer's held, owed and rejected partitions of one topic: data and views, no rules."""

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
    """A release of a partition that does not run here: the committed offset is fetched first."""

    entry: Handoff
    born: int
    unknown: bool = False  # no committed offset exists: the log's bounds decide


@dataclass(frozen=True, slots=True)
class RejectedGrant:
    """Why a grant of this topic id up to `epoch` is rejected; `by` is the fencing token."""

    epoch: int
    topic_id: str
    by: Token | None = None


@dataclass(slots=True)
class Holdings:
    """By partition: `held`, `owed_releases`, `rejected`, and `answered`: entry, offset and token of a release to post.

    `accepted`: the topic node in force. `group`: the group for requests to Kafka; empty = the accepted node's group.
    `awaiting`: the accepted node names us as taker of an unreleased partition. `first`: the application's options for
    new groups. `request`: the open request to Kafka or the sink; `number`: of the last request. `fail_on_data_loss`:
    the application's option; `None` = a consumer without the option, whose partitions stop as with true. `fences`:
    number of holdings ended by a newer token. `described`: id and number of partitions of the topic, as Kafka last told.
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
        """Return the number of the topic's partitions in Kafka; 0 = not known."""
        topic_id, count = self.described
        return count if topic_id == self.topic_id else 0

    @property
    def generation(self) -> str:
        """Return the accepted node's generation; empty without a node."""
        return self.accepted.generation if self.accepted is not None else ""

    @property
    def in_other_group(self) -> bool:
        """Return whether the topic was added again with another group: requests to Kafka are then about the old group."""
        return self.accepted is not None and self.group not in ("", self.accepted.group_id)

    @property
    def paused(self) -> frozenset[int]:
        """Return the held partitions that are not read."""
        return self.accepted.paused if self.accepted is not None else frozenset()

    @property
    def due(self) -> dict[int, OwnedPartition]:
        return {p: h for p, h in self.held.items() if h.due}

    @property
    def fetchable(self) -> tuple[int, ...]:
        """Return the partitions whose committed entries matter to us."""
        return tuple(sorted({p for p, h in self.held.items() if not h.fenced} | self.owed_releases.keys()))

    @property
    def unknown(self) -> tuple[int, ...]:
        """Return partitions without any position, for which the log's bounds decide."""
        held = {p for p, h in self.held.items() if h.phase is Phase.LISTING and not h.closing}
        return tuple(sorted(held | {p for p, one in self.owed_releases.items() if one.unknown}))

    @property
    def starting(self) -> bool:
        """Something was granted and is ready soon."""
        soon = (Phase.FETCHING, Phase.STARTING)
        return any(h.phase in soon and not h.closing for h in self.held.values())

    @property
    def expecting(self) -> bool:
        """Return whether a partition is on its way to us: release awaited, or taken up and not ready."""
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
        """Return the holdings that request `number` was about; a holding born later is a different holding."""
        found = [(p, self.held[p]) for p in partitions if p in self.held]
        return [(p, h) for p, h in found if number > h.born]

    def committing(self, partition: int) -> bool:
        return isinstance(self.request, Commit) and partition in self.request.offsets

    def is_rejected(self, partition: int, epoch: int) -> bool:
        """Whether a grant of this epoch is not taken up again."""
        rejected = self.rejected.get(partition)
        # A rejection counts only for its topic id, not for a recreated topic.
        return rejected is not None and rejected.topic_id == self.topic_id and epoch <= rejected.epoch

    # Changes ---------------------------------------------------------------------------------------------------------

    def acquire(self, grant: Grant, now: float) -> None:
        """Begin to hold a partition."""
        phase = Phase.CLAIMING if self.terms.claims else Phase.FETCHING
        passes = Passes(granted_at=now)
        self.held[grant.partition] = OwnedPartition(grant, self.topic_id, self.number, phase, passes=passes)

    def reject(self, held: OwnedPartition, by: Token | None = None) -> None:
        """Do not take this holding up again under its grant."""
        self.rejected[held.grant.partition] = RejectedGrant(held.token.epoch, held.topic_id, by)

    def stop(self, held: OwnedPartition) -> None:
        """End the holding, and do not take it up again under its grant."""
        held.closing = True
        self.reject(held)

    def fence(self, held: OwnedPartition, by: Token | None = None) -> None:
        """A newer owner exists: no further commit, and no new start under this grant."""
        self.fences += not held.fenced
        held.fence()
        self.reject(held, by)

    def look_soon(self) -> None:
        """Rely on no earlier fetch: another consumer may own our partitions."""
        for held in self.held.values():
            held.looked_at = -inf
