"""Kafka's data on a topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model.topic import LastPass, Token


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """Kafka's description of a topic: the id, and partitions 0..count-1.

    `racks`: partition → racks of the replicas' brokers, the preferred leader's first; empty if brokers have no racks.
    """

    topic: str
    topic_id: str
    partition_count: int
    racks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed group offset with its metadata. `token` is `None` for empty or foreign metadata.

    `last_pass`: when the committed records passed the sink; used only to measure pauses. `keeps_state`: the owner's pipeline
    keeps state of the partition in its sink.
    """

    offset: int
    token: Token | None = None
    owner: str = ""
    cluster: str = ""
    topic_id: str = ""
    last_pass: LastPass | None = field(default=None, compare=False)
    keeps_state: bool = False


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record's content. `timestamp_type`: 0 = the producer's time, 1 = the broker's, -1 = none."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    timestamp_type: int = 0

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers
