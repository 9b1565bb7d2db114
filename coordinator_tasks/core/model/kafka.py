"""What Kafka says of a topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model.topic import LastPass, Token


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
    """A committed group offset, with what its metadata says; `token` is `None` if the metadata is empty or not ours.

    `last_pass`: when these records had passed the sink; it counts for the measure of the pause alone.
    """

    offset: int
    token: Token | None = None
    owner: str = ""
    cluster: str = ""
    topic_id: str = ""
    last_pass: LastPass | None = field(default=None, compare=False)
