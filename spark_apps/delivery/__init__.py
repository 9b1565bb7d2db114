"""Delivery semantics, and the interface of a sink for exactly-once delivery.

At least once: the offsets are committed after the write to the sink. At most once: before the write. Exactly once: the
sink changes rows and positions in one transaction, so the sink's positions decide, and Kafka's commits follow them.

A sink for another store implements `TransactionalSink`. `database_sink.DatabaseSink` is the sink for databases, and
`lakehouse.table_sink.TableSink` the sink for tables of Delta Lake and Apache Iceberg.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from coordinator_tasks.core.errors import CoordinatorError, Unavailable
from coordinator_tasks.core.model import StateOnReset, Token

if TYPE_CHECKING:
    import pyarrow as pa


class Delivery(StrEnum):
    """How often a record may reach the sink if processes die."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    EXACTLY_ONCE = "exactly-once"


class SinkUnavailable(Unavailable, code="KPC-044"):
    """The sink of a consumer does not answer. The partitions wait, with retries.

    Remedy: check the database that the pipeline writes to.
    """


def sink_is_away(error: str) -> bool:
    """Return whether this line, kind and text of an error, reports a `SinkUnavailable`.

    Spark passes only this line to the driver.
    """
    return re.search(r"\bSinkUnavailable: ", error) is not None


class RecordAtFault(Exception):
    """Base class of our own errors that a record's content causes."""


class StateElsewhere(CoordinatorError, code="KPC-101"):
    """Another owner has kept the partition's state in another database, such as a SQLite file of another host. The
    partition is not read.

    Remedy: use one database for all consumers of the topic; with several hosts, PostgreSQL or MariaDB. Or reset the
    offset with `--state reset`.
    """


class PositionMoved(CoordinatorError, code="KPC-064"):
    """The sink's position, under the consumer's own token, is not the start of the batch, because the table of
    positions was edited or emptied; or a row names a partition outside of the batch. Nothing was written.

    Remedy: check who edits the table: the partitions are read again from the positions there. For a wrong partition,
    correct the pipeline and restart the consumer.
    """


@dataclass(frozen=True, slots=True)
class Writer:
    """Owner of positions: one topic in one cluster of consumers, and the requesting consumer.

    `partition_count`: of the topic in Kafka, about a second ago; 0 = not known. `states`: partition → what a person wants
    with the state of a partition whose position is forgotten, where the person has said so.
    """

    cluster: str
    topic: str
    topic_id: str
    consumer: str
    partition_count: int = 0
    states: Mapping[int, StateOnReset] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class SinkEntry:
    """A sink's entry of a partition. `offset`: all earlier offsets are written; `None` = claimed, nothing written.

    `first_epoch`: in a sink that keeps state, the epoch of the partition's first claim.
    """

    token: Token
    consumer: str
    offset: int | None = None
    first_epoch: int | None = field(default=None, compare=False)

    def refuses(self, token: Token, consumer: str) -> bool:
        """Return whether this entry refuses `token`.

        If two consumers seem to have acquired the partition at the same epoch, the later claim is refused.
        """
        ours = token == self.token and token.generation == self.token.generation and consumer == self.consumer
        return self.token >= token and not ours


@dataclass(frozen=True, slots=True)
class SinkStep:
    """A batch's offsets of one partition under one token: `start` (inclusive) to `end` (exclusive)."""

    token: Token
    start: int
    end: int


class TransactionalSink(Protocol):
    """A store of rows, with a position per (cluster, topic, partition). Each method is one transaction."""

    def claim(self, writer: Writer, tokens: Mapping[int, Token], forget: Mapping[int, int]) -> Mapping[int, SinkEntry]:
        """Store these tokens, except where an entry `refuses` them. Return the resulting entries.

        A stored offset is kept unless it has another topic id, or its token's epoch is below the partition's epoch in
        `forget` (a person has reset the offset since). After the return, no `write` under an older token succeeds.
        Raises `SinkUnavailable` after a second at most, because the topic's other partitions wait; the claim is then
        retried.
        """

    def write(self, writer: Writer, steps: Mapping[int, SinkStep], rows: "pa.Table") -> Mapping[int, SinkEntry]:
        """Add the rows and move the positions to the ends of the steps: both or nothing, durable on return.

        Rows and steps may be empty, because Spark begins a query with an empty batch if there is nothing to read yet.
        Returns the partitions whose entries have another token; their rows (column `partition`) are left out. Raises
        `PositionMoved` if a position is not the step's start or a row has no step, and any error of the store.
        """
