"""The table `consumer_state`: a row per (cluster, topic, topic id, partition, operator, name, key).

A row with an empty key belongs to its partition: the schema of the state, and the watermark. A partition's rows are
read and written only in the transaction that holds the partition's position, so they need no separate lock. Two kinds of
rows never change: the number of the topic's partitions when the state of an operator began, under partition -1, and the
epoch of a partition's first claim, under the empty operator.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from spark_apps.delivery import Writer
from spark_apps.delivery.database import Cursor, first_line
from spark_apps.state import StateDamaged
from spark_apps.state.handle import TIMERS

TABLE = "consumer_state"
PARTITION = "$partition"
"""Name of the row for a partition as a whole, under the empty key."""
TOPIC = "$topic"
"""Name of the row for an operator as a whole, under the empty key and `NO_PARTITION`."""
NO_PARTITION = -1
CLAIMED = "$claimed"
"""Name of the row with the epoch of a partition's first claim in this database, under the empty key and no operator."""
KEY_COLUMNS = ("cluster", "topic", "topic_id", "partition", "operator", "key", "name")
COLUMNS = (*KEY_COLUMNS, "value", "expires")
PURGED_ROWS = 5_000
"""Maximum expired rows of a variable that a batch deletes from a partition. A million deletions would delay it."""
DUE_KEYS = 2_000
"""Keys whose timers fire together. A batch's memory depends on this number, not on the number of timers."""

# SQLite keeps bytes in a column of any type. The key precedes the name, so that the rows of a key are neighbours.
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    cluster TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL, "partition" INTEGER NOT NULL,
    operator TEXT NOT NULL, name TEXT NOT NULL, "key" BYTEA NOT NULL, value BYTEA NOT NULL, expires BIGINT,
    PRIMARY KEY (cluster, topic, topic_id, "partition", operator, "key", name)
)"""
_INDEXED = ("cluster", "topic", "topic_id", "partition", "operator", "name", "expires")
_OPERATOR = "cluster = ? AND topic = ? AND topic_id = ? AND operator = ?"
_WHERE = f'{_OPERATOR} AND "partition" = ?'
_FIND = f'SELECT "key", name, value FROM {TABLE} WHERE {_WHERE}'  # noqa: S608
_PARTITIONS = f'SELECT "partition", value FROM {TABLE} WHERE {_OPERATOR} AND "key" = ? AND name = ?'  # noqa: S608
_TOPIC_ROW = f'SELECT value FROM {TABLE} WHERE {_WHERE} AND "key" = ? AND name = ?'  # noqa: S608
_OPERATORS = (
    f'SELECT operator FROM {TABLE} WHERE cluster = ? AND topic = ? AND topic_id = ? AND "partition" = ? AND name = ?'  # noqa: S608
)
_KEYS = f'SELECT DISTINCT "key" FROM {TABLE} WHERE {_WHERE} AND "key" > ? ORDER BY "key"'  # noqa: S608
_MOVE = f'UPDATE {TABLE} SET "partition" = ? WHERE {_WHERE} AND "key" = ?'  # noqa: S608
_DUE = (
    f'SELECT "key" FROM {TABLE} WHERE {_WHERE} AND name = ? AND expires <= ? ORDER BY expires, "key" LIMIT {DUE_KEYS}'  # noqa: S608
)
_DELETE = f'DELETE FROM {TABLE} WHERE {_WHERE} AND "key" = ? AND name = ?'  # noqa: S608
_DROP = f"DELETE FROM {TABLE} WHERE {_WHERE} AND name = ?"  # noqa: S608
_CLEAR = f"DELETE FROM {TABLE} WHERE {_WHERE}"  # noqa: S608
_EXPIRED = f'SELECT "key", LENGTH(value) FROM {TABLE} WHERE {_WHERE} AND name = ? AND expires <= ? LIMIT {PURGED_ROWS}'  # noqa: S608


_SIZE = f"SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM {TABLE} WHERE {_WHERE} AND name <> ?"  # noqa: S608
_FIRST_TIMER = f"SELECT MIN(expires) FROM {TABLE} WHERE {_WHERE} AND name = ?"  # noqa: S608


R = TypeVar("R")


class PartitionRow(msgspec.Struct, array_like=True, frozen=True):
    """The state of a partition as a whole: schema as text (`schema.py`), watermark in ms since 1970, and size.

    `rows`, `value_bytes`: number of the partition's other rows, and bytes of their values (`None` = written by a
    release that did not count).
    """

    schema: str
    watermark_ms: int = 0
    rows: int | None = None
    value_bytes: int | None = None


class ClaimRow(msgspec.Struct, array_like=True, frozen=True):
    """The first claim of a partition in this database."""

    epoch: int


class TopicRow(msgspec.Struct, array_like=True, frozen=True):
    """The state of an operator as a whole: the number of the topic's partitions when the state began.

    `moving_to`: the number of partitions to which a re-hash moves the state and has not ended; `None` = no re-hash.
    """

    partition_count: int
    moving_to: int | None = None


def prepare(cursor: Cursor) -> None:
    """Create the table and its index if missing; raises `StateDamaged` for a table that lacks a column."""
    cursor.execute(f"{_CREATE} {cursor.BY_KEY}")
    check_columns(cursor)
    cursor.make_index(f"{TABLE}_expires", TABLE, _INDEXED, "expires IS NOT NULL")


def check_columns(cursor: Cursor) -> None:
    """Raise `StateDamaged` if the table lacks a column; further columns are allowed."""
    missing = sorted(set(COLUMNS) - set(cursor.columns(TABLE)))
    if missing:
        raise StateDamaged(
            f"the table {TABLE} has no column {missing[0]}: another program has changed the table; add the column, or rename "
            "the table, so that a new table is created without state"
        )


def operators_of(cursor: Cursor, writer: Writer) -> list[str]:
    """Return the names of the topic's operators with state."""
    if not cursor.has_table(TABLE):
        return []
    found = cursor.query(_OPERATORS, (writer.cluster, writer.topic, writer.topic_id, NO_PARTITION, TOPIC))
    return sorted(name for (name,) in found)


@dataclass(frozen=True, slots=True)
class StateRows:
    """The rows of one operator of a topic, in the transaction of `cursor`."""

    cursor: Cursor
    writer: Writer
    operator: str

    def partitions(self, among: Collection[int]) -> dict[int, PartitionRow]:
        """Return the rows about these partitions as a whole."""
        return self._about(PartitionRow, PARTITION, among)

    def begun_with(self, partition_count: int) -> int | None:
        """Return the number of the topic's partitions when the state began. State without this number begins now.

        `partition_count`: the topic's present number; 0 = unknown. Returns `None` if both are unknown.
        """
        row = self.topic_row()
        if row is None and partition_count:
            cluster, topic, topic_id, operator = self._place
            value = msgspec.msgpack.encode(TopicRow(partition_count))
            self.cursor.merge(
                TABLE, COLUMNS, [(cluster, topic, topic_id, NO_PARTITION, operator, b"", TOPIC, value, None)]
            )
            row = self.topic_row()
        return None if row is None else row.partition_count

    def topic_row(self) -> TopicRow | None:
        """Return the row about the operator as a whole."""
        for (value,) in self.cursor.query(_TOPIC_ROW, (*self._place, NO_PARTITION, b"", TOPIC)):
            return self._row(TopicRow, NO_PARTITION, TOPIC, bytes(value))
        return None

    def put_topic_row(self, row: TopicRow) -> None:
        self.put(NO_PARTITION, [(b"", TOPIC, msgspec.msgpack.encode(row), None)])

    def first_epochs(self, epochs: Mapping[int, int]) -> dict[int, int]:
        """Return the epochs of the partitions' first claims; a partition without a first claim is noted with the given epoch."""
        found = {p: row.epoch for p, row in self._about(ClaimRow, CLAIMED, epochs).items()}
        new = {p: epoch for p, epoch in epochs.items() if p not in found}
        if new:
            cluster, topic, topic_id, operator = self._place
            rows = [
                (cluster, topic, topic_id, p, operator, b"", CLAIMED, msgspec.msgpack.encode(ClaimRow(epoch)), None)
                for p, epoch in sorted(new.items())
            ]
            self.cursor.merge(TABLE, COLUMNS, rows)
        return found | new

    def _about(self, kind: type[R], name: str, among: Collection[int]) -> dict[int, R]:
        """Return the row of this name about each of these partitions as a whole, where there is one."""
        found = self.cursor.query_in(_PARTITIONS, (*self._place, b"", name), '"partition"', sorted(among))
        return {p: self._row(kind, p, name, bytes(value)) for p, value in found}

    def put_partition(self, partition: int, row: PartitionRow) -> None:
        self.put(partition, [(b"", PARTITION, msgspec.msgpack.encode(row), None)])

    def find(self, partition: int, keys: Collection[bytes]) -> Iterator[tuple[bytes, str, bytes]]:
        """Return key, name and value of all rows of these keys."""
        found = self.cursor.query_in(_FIND, (*self._place, partition), '"key"', sorted(keys)) if keys else []
        return ((bytes(key), name, bytes(value)) for key, name, value in found)

    def put(self, partition: int, rows: Iterable[tuple[bytes, str, bytes, int | None]]) -> None:
        """Store rows of key, name, value and expiry. They replace rows with the same key and name."""
        cluster, topic, topic_id, operator = self._place
        self.cursor.replace(
            TABLE, COLUMNS, KEY_COLUMNS, [(cluster, topic, topic_id, partition, operator, *row) for row in rows]
        )

    def delete(self, partition: int, rows: Iterable[tuple[bytes, str]]) -> None:
        self.cursor.executemany(_DELETE, [(*self._place, partition, *row) for row in rows])

    def keys(self, partition: int, after: bytes, limit: int) -> list[bytes]:
        """Return the partition's next keys in their order. `after`: the last key before; empty = from the first."""
        found = self.cursor.query(f"{_KEYS} LIMIT {limit}", (*self._place, partition, after))
        return [bytes(key) for (key,) in found]

    def move(self, partition: int, target: int, keys: Collection[bytes]) -> None:
        """Move all rows of these keys to another partition."""
        self.cursor.executemany(_MOVE, [(target, *self._place, partition, key) for key in keys])

    def drop(self, partition: int, name: str) -> None:
        self.cursor.execute(_DROP, (*self._place, partition, name))

    def clear(self, partition: int) -> None:
        self.cursor.execute(_CLEAR, (*self._place, partition))

    def due(self, partition: int, until_ms: int) -> list[bytes]:
        """Return at most `DUE_KEYS` keys with timers up to this time, the earliest first."""
        found = self.cursor.query(_DUE, (*self._place, partition, TIMERS, until_ms))
        return [bytes(key) for (key,) in found]

    def purge(self, partition: int, names: Sequence[str], now_ms: int) -> tuple[int, int]:
        """Delete at most `PURGED_ROWS` expired rows of each variable. Return number and bytes of all deleted rows."""
        rows = value_bytes = 0
        for name in names:
            expired = self.cursor.query(_EXPIRED, (*self._place, partition, name, now_ms))
            self.delete(partition, [(bytes(key), name) for key, _ in expired])
            rows, value_bytes = rows + len(expired), value_bytes + sum(size for _, size in expired)
        return rows, value_bytes

    def size(self, partition: int) -> tuple[int, int]:
        """Return the number of a partition's rows, without the partition's own row, and the bytes of their values."""
        ((rows, value_bytes),) = self.cursor.query(_SIZE, (*self._place, partition, PARTITION))
        return rows, int(value_bytes)

    def first_timer_ms(self, partition: int) -> int | None:
        ((first,),) = self.cursor.query(_FIRST_TIMER, (*self._place, partition, TIMERS))
        return None if first is None else int(first)

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return self.writer.cluster, self.writer.topic, self.writer.topic_id, self.operator

    def _row(self, kind: type[R], partition: int, name: str, value: bytes) -> R:
        try:
            return msgspec.msgpack.decode(value, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.damaged(partition, b"", name, error) from error

    def damaged(self, partition: int, key: bytes, name: str, error: Exception) -> StateDamaged:
        """Return the error for a row that cannot be read."""
        writer = self.writer
        return StateDamaged(
            f"{TABLE} of cluster {writer.cluster}, topic {writer.topic}, partition {partition}, operator {self.operator}: the "
            f"row {name} of key {key.hex() or 'none'} cannot be read ({first_line(error)}): another program has changed it"
        )
