"""How often a record reaches the sink, and what a sink has to offer for exactly once.

At least once: the offsets are committed after the sink. At most once: before it. Exactly once: the sink keeps rows and
positions together and changes them in one transaction, so its positions are the truth and Kafka's follow.

A `TransactionalSink` is all that another store has to implement; `database_sink.DatabaseSink` is the one for SQLite and
PostgreSQL, and `docs/delivery.md` says what one for a table format has to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from coordinator_tasks.core.errors import CoordinatorError, Unavailable
from coordinator_tasks.core.model import Token

if TYPE_CHECKING:
    import pyarrow as pa


class Delivery(StrEnum):
    """How often a record reaches the sink when processes die."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    EXACTLY_ONCE = "exactly-once"


class SinkUnavailable(Unavailable):
    """The sink does not answer, or a neighbour holds its positions: asked again."""


class PositionMoved(CoordinatorError):
    """The sink's position is another one than the batch begins at, under our own token: somebody edited it."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Whose positions: one topic as one cluster of consumers reads it, and the consumer that asks."""

    cluster: str
    topic: str
    topic_id: str
    consumer: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands in the sink for a partition: everything before `offset` is in it; `None` = claimed, nothing written."""

    token: Token
    consumer: str
    offset: int | None = None

    def refuses(self, token: Token, consumer: str) -> bool:
        """Whether this keeps `token` out. Where two seem to have acquired at one epoch, the later one stops."""
        ours = token == self.token and token.generation == self.token.generation and consumer == self.consumer
        return self.token >= token and not ours


@dataclass(frozen=True, slots=True)
class Step:
    """What a batch adds to a partition: the offsets `start` (inclusive) to `end` (exclusive), under a holding."""

    token: Token
    start: int
    end: int


class TransactionalSink(Protocol):
    """A store of rows with a position per (cluster, topic, partition). Each method is one transaction."""

    def claim(self, writer: Writer, tokens: Mapping[int, Token], forget: Mapping[int, int]) -> Mapping[int, Standing]:
        """Put these tokens in place, where none that `refuses` them stands, and say what stands there afterwards.

        An offset that stands there is kept, unless it is of another topic id, or was written under a token of an epoch
        below the partition's one in `forget` (a person has sent it elsewhere since). From the return on, no `write` under
        an older token succeeds. Raises `SinkUnavailable`.
        """

    def write(self, writer: Writer, steps: Mapping[int, Step], rows: "pa.Table") -> Mapping[int, Standing]:
        """Add the rows and move the positions to the ends of the steps, both or nothing; durable on return.

        There may be neither: where nothing is to be read yet, Spark begins a query with an empty batch.
        Returns the partitions that stand under another token by now: their rows (column `partition`) are left out.
        Raises `PositionMoved` when a position is not the step's start or rows have no step, and whatever the store raises.
        """
