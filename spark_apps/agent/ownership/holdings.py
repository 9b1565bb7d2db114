"""What a consumer holds, owes and may not take up again of one topic. The holder and Kafka's answers change it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Handoff, Token, TopicNode
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.held import Held
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.settings import Terms


@dataclass(slots=True)
class Owing:
    """A release that is owed for a partition that does not run here: the committed offset has to be read first."""

    entry: Handoff
    born: int
    unknown: bool = False  # there is no committed offset: the log's bounds decide


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a grant of this topic id up to `epoch` is not taken up again; `by` is the token that fenced it."""

    epoch: int
    topic_id: str
    by: Token | None = None


@dataclass(slots=True)
class Holdings:
    """By partition: `held`, `owing`, `bars`, and `answered`, what the release that is owed has to say.

    `node` is the topic node that is acted on; `awaiting`: it names us as the taker of what is not released yet. `first`: what
    the application's options say of new groups.
    """

    held: dict[int, Held] = field(default_factory=dict)
    owing: dict[int, Owing] = field(default_factory=dict)
    answered: dict[int, tuple[Handoff, int, Token]] = field(default_factory=dict)
    bars: dict[int, Bar] = field(default_factory=dict)
    node: TopicNode | None = None
    awaiting: bool = False
    first: FirstOffsets | None = None
    terms: Terms = field(default_factory=Terms)
    fail_on_data_loss: bool = True

    @property
    def due(self) -> dict[int, Held]:
        """What stands to be committed."""
        return {p: h for p, h in self.held.items() if h.due}

    @property
    def lookable(self) -> tuple[int, ...]:
        """The partitions whose committed entries matter to us."""
        return tuple(sorted({p for p, h in self.held.items() if not h.fenced} | self.owing.keys()))

    @property
    def unknown(self) -> tuple[int, ...]:
        """Partitions without any position, so that the log's bounds decide."""
        held = {p for p, h in self.held.items() if h.phase is Phase.SURVEYING and not h.closing}
        return tuple(sorted(held | {p for p, owing in self.owing.items() if owing.unknown}))

    def of_request(self, partitions: Iterable[int], number: int) -> list[tuple[int, Held]]:
        """The holdings that request `number` was about: one that began after it is another one."""
        found = [(p, self.held[p]) for p in partitions if p in self.held]
        return [(p, h) for p, h in found if number > h.born]

    def bar(self, held: Held, by: Token | None = None) -> None:
        """Do not take this holding up again under its grant."""
        self.bars[held.grant.partition] = Bar(held.token.epoch, held.topic_id, by)
