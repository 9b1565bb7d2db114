"""Exactly once into a database: rows and positions in one transaction of the same database.

The table `consumer_positions` has a row per (cluster, topic, partition): the offset up to which the database has all
records, and the writer's token. A writer locks the rows of its batch's partitions first, until its transaction ends. A
process that dies in between leaves no change.

All rows go through the driver's connection, because executors would write in other transactions. If a topic's positions
are deleted, the topic continues at Kafka's committed offsets.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkEntry, SinkStep, SinkUnavailable, Writer
from spark_apps.delivery.database import Cursor, Database, first_line
from spark_apps.delivery.positions import Stored, check_rows, left_out, taken, without

TABLE = "consumer_positions"
COLUMNS = ("cluster", "topic", "partition", "topic_id", "epoch", "incarnation", "generation", "consumer")
"""Columns of a partition that is claimed and has no offset yet."""
CLAIM_WAIT_S = 1.0
"""Seconds that a claim waits for a writer before the retry. Meanwhile the topic's other requests wait."""
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    cluster TEXT, topic TEXT, "partition" INTEGER, topic_id TEXT NOT NULL, "offset" BIGINT,
    epoch BIGINT NOT NULL, incarnation BIGINT NOT NULL, generation TEXT NOT NULL, consumer TEXT NOT NULL,
    PRIMARY KEY (cluster, topic, "partition")
)"""
_FIND = f'SELECT "partition", topic_id, "offset", epoch, incarnation, generation, consumer FROM {TABLE}'  # noqa: S608
_WHERE = 'WHERE cluster = ? AND topic = ? AND "partition" = ?'
_VALUES = 'topic_id = ?, "offset" = ?, epoch = ?, incarnation = ?, generation = ?, consumer = ?'
_TAKE = f"UPDATE {TABLE} SET {_VALUES} {_WHERE}"  # noqa: S608
_MOVE = f'UPDATE {TABLE} SET "offset" = ? {_WHERE}'  # noqa: S608

V = TypeVar("V")
Prepare = Callable[[Cursor], None]
Store = Callable[[Cursor, pa.Table], None]
Add = Callable[[Mapping[int, SinkStep], pa.Table], None]
Adding = Callable[[Cursor, Mapping[int, SinkStep], pa.Table, Add], None]
"""Adds the rows of these steps by calls of `Add`, in the cursor's transaction."""


class DatabaseSink:
    """A `delivery.TransactionalSink` for a database.

    `prepare` creates the application's tables if missing, and `store` adds a batch's rows. Both use only the given
    cursor, in the transaction of the positions.
    """

    def __init__(self, database: Database, prepare: Prepare, store: Store) -> None:
        self.database = database
        self.prepare = prepare
        self.store = store
        # Separate connections: a claim need not wait for a batch. Only the first claim, which makes tables, may wait
        # long.
        self._first_claim, self._claims = database.another(), database.another(CLAIM_WAIT_S)
        self._prepared = False
        self._lock = threading.Lock()

    def claim(self, writer: Writer, tokens: Mapping[int, Token], forget: Mapping[int, int]) -> dict[int, SinkEntry]:
        with self._answering(), self._for_claims().transaction() as cursor:
            self._make_tables(cursor)
            rows = [(writer.cluster, writer.topic, p, writer.topic_id, *_held(t, writer)) for p, t in _sorted(tokens)]
            cursor.merge(TABLE, COLUMNS, rows)
            stored = standing(cursor, writer, tokens)
            first_epochs = self._first_epochs(cursor, writer, tokens, stored)
            for partition, entry in taken(writer, tokens, forget, stored).items():
                held, key = _held(entry.token, writer), (writer.cluster, writer.topic, partition)
                cursor.execute(_TAKE, (writer.topic_id, entry.offset, *held, *key))
                if entry.offset is None and stored[partition][1].offset is not None:
                    self._reset(cursor, writer, partition)
            found = standing(cursor, writer, tokens)
            self._check(cursor, writer, tokens)
        with self._lock:
            self._prepared = True
        self._first_claim.close()
        return {p: replace(entry, first_epoch=first_epochs.get(p)) for p, (_, entry) in found.items()}

    def write(
        self, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table, adding: Adding | None = None
    ) -> dict[int, SinkEntry]:
        """See `TransactionalSink`. `adding` decides which rows are added in which calls."""
        check_rows(writer, steps, rows)
        if not steps:
            return {}
        with self.database.transaction() as cursor:
            refused = left_out(writer, steps, standing(cursor, writer, steps), TABLE)
            kept = {partition: step for partition, step in _sorted(steps) if partition not in refused}
            if kept and adding is None:
                self._add(cursor, writer, kept, without(rows, refused))
            elif kept and adding is not None:
                adding(cursor, kept, without(rows, refused), partial(self._add, cursor, writer))
            moves = [(step.end, writer.cluster, writer.topic, partition) for partition, step in kept.items()]
            cursor.executemany(_MOVE, moves)
        return refused

    def _first_epochs(
        self,
        cursor: Cursor,  # noqa: ARG002 - for state
        writer: Writer,  # noqa: ARG002
        tokens: Mapping[int, Token],  # noqa: ARG002
        stored: Stored,  # noqa: ARG002
    ) -> Mapping[int, int]:
        """Return the epoch of each partition's first claim, where the sink notes the epoch."""
        return {}

    def _reset(self, cursor: Cursor, writer: Writer, partition: int) -> None:
        """Note that a position no longer counts: a person has reset the offset, or the topic was recreated."""

    def add(
        self, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table, first: Callable[[Cursor], None]
    ) -> None:
        """Add rows of records before the positions, in one transaction with `first`. Lock the positions only."""
        with self.database.transaction() as cursor:
            standing(cursor, writer, steps)
            first(cursor)
            self._add(cursor, writer, steps, rows)

    def _check(self, cursor: Cursor, writer: Writer, partitions: Collection[int]) -> None:
        """Raise an error if none of these partitions may be claimed."""

    def _add(self, cursor: Cursor, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> None:  # noqa: ARG002 - for state
        self.store(cursor, rows)

    def close(self) -> None:
        for database in (self._first_claim, self._claims, self.database):
            database.close()

    def _for_claims(self) -> Database:
        with self._lock:
            return self._claims if self._prepared else self._first_claim

    def _make_tables(self, cursor: Cursor) -> None:
        with self._lock:
            if self._prepared:
                return
        cursor.exclusively(TABLE)  # consumers that start at the same time would both create the tables
        cursor.execute(_CREATE)
        self.prepare(cursor)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not (isinstance(error, SinkUnavailable) or self.database.is_driver_error(error)):
                raise
            raise SinkUnavailable(f"the sink's database does not take claims ({first_line(error)})") from error


def standing(cursor: Cursor, writer: Writer, partitions: Collection[int]) -> dict[int, tuple[str, SinkEntry]]:
    """Return topic id and entry of these partitions. Lock their rows in order until the transaction ends."""
    marks = ", ".join("?" for _ in partitions)
    where = f'WHERE cluster = ? AND topic = ? AND "partition" IN ({marks}) ORDER BY "partition"'
    rows = cursor.query_locked(f"{_FIND} {where}", (writer.cluster, writer.topic, *sorted(partitions)))
    return {
        partition: (topic_id, SinkEntry(Token(epoch, incarnation, generation), consumer, offset))
        for partition, topic_id, offset, epoch, incarnation, generation, consumer in rows
    }


def _held(token: Token, writer: Writer) -> tuple[int, int, str, str]:
    return token.epoch, token.incarnation, token.generation, writer.consumer


def _sorted(found: Mapping[int, V]) -> list[tuple[int, V]]:
    return sorted(found.items(), key=lambda item: item[0])
