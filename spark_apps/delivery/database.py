"""The database of a sink, and `RowSink` for `foreachBatch`: rows with topic, partition and offset as their key.

The function for `foreachBatch` collects the batch to the driver and writes the batch in one transaction. When the
function returns, the rows are durable. A batch has to fit into the driver's memory: set `maxOffsetsPerTrigger`. For
parallel writes by executors, use Spark's writers inside `foreachBatch`.

An address names the database, such as `sqlite:///path` or `postgresql://user@host/name`: see `dialects`.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.fleet_values import SQLITE
from spark_apps.delivery import RecordAtFault, SinkUnavailable
from spark_apps.delivery.dialects import Cursor, Row, dialect_of, dialect_of_error, quoted

__all__ = ["KEY", "Cursor", "Database", "RowSink", "blames_record", "borrowed", "existing", "first_line"]

KEY = {"topic": "TEXT", "partition": "INTEGER", "offset": "BIGINT"}
"""The place of a record in Kafka, which is the key of every idempotent row."""
_WHOLE = frozenset({"SMALLINT", "INTEGER", "INT", "BIGINT"})


class Database:
    """One connection, made at the first use. It has one transaction at a time, from any thread.

    `lock_wait_s`: how long a statement waits for locks; `None` = 30 s with SQLite, 10 s with PostgreSQL.
    """

    def __init__(self, url: str, lock_wait_s: float | None = None) -> None:
        self._dialect = dialect_of(url)
        self._dialect.check(url)
        self._url = url
        self._lock_wait_s = lock_wait_s
        self._lock = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Run the block in a transaction, durable when the block has ended. Any error rolls back and is raised.

        Raises `SinkUnavailable` if the server or the file cannot be reached.
        """
        try:
            with self._locked() as cursor:
                yield cursor
        except self._dialect.error as error:
            if not self._dialect.is_away(error):
                raise
            raise SinkUnavailable(f"the database does not answer: {first_line(error)}") from error

    @contextmanager
    def _locked(self) -> Iterator[Cursor]:
        with self._lock:
            if self._connection is None:
                self._connection = self._dialect.connect(self._url, self._lock_wait_s)
            try:
                yield self._dialect.begin(self._connection)
                self._connection.commit()
            except BaseException:
                # Roll back first: SQLite keeps its locks while a closed connection still has a cursor.
                with suppress(Exception):
                    self._connection.rollback()
                self._drop()
                raise

    def another(self, lock_wait_s: float | None = None) -> "Database":
        return Database(self._url, lock_wait_s)

    def is_driver_error(self, error: Exception) -> bool:
        return isinstance(error, self._dialect.error)

    def blames_record(self, error: Exception) -> bool:
        """Return whether a record's content may have caused this error of a sink."""
        return self._dialect.blames_row(error) if self.is_driver_error(error) else blames_record(error)

    def close(self) -> None:
        """Close the connection; the next transaction makes a new connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        """Close the connection after an error, so that the next transaction makes a new connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_idle: dict[str, list[Database]] = {}


@contextmanager
def borrowed(url: str) -> Iterator[Database]:
    """Yield a database that no other block of this process uses meanwhile.

    The connection stays open for a later block, because a pipeline does not learn of its query's end.
    """
    idle = _idle.setdefault(url, [])
    try:
        database = idle.pop()
    except IndexError:
        database = Database(url)
    try:
        yield database
    finally:
        idle.append(database)


@contextmanager
def existing(url: str, lock_wait_s: float | None = None) -> Iterator[Database]:
    """Yield a database that a person names, and close the connection.

    Raises `Refused` if the SQLite file is missing or a statement fails, and `SinkUnavailable`.
    """
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        raise Refused("there is no such file of SQLite on this host; correct the path of the database")
    database = Database(url, lock_wait_s)
    try:
        yield database
    except Exception as error:
        if database.is_driver_error(error):
            raise Refused(
                f"the database refuses the request: {first_line(error)}; check the account's rights"
            ) from error
        raise
    finally:
        database.close()


def blames_record(error: Exception) -> bool:
    """Return whether a record's content may have caused this error of an application's function.

    Errors of files, connections or memory, and a database that does not answer, are no record's fault.
    """
    if isinstance(error, OSError | MemoryError):
        return False
    if isinstance(error, CoordinatorError):
        return isinstance(error, RecordAtFault) or type(error) is Refused
    dialect = dialect_of_error(error)
    return dialect is None or dialect.blames_row(error)


def first_line(error: Exception) -> str:
    """Return the first line of the error's text; the error's kind if the text is empty."""
    return str(error).partition("\n")[0] or type(error).__name__


class RowSink:
    """Rows with the key (topic, partition, offset), or a longer `key`. Writing a record again changes nothing.

    `columns`: the other columns, name → SQL type. `unique`: columns of a second key; the first row with a value stays,
    and later rows with this value are ignored. Nulls are never equal.
    """

    def __init__(
        self, table: str, columns: Mapping[str, str], unique: Sequence[str] = (), key: Mapping[str, str] = KEY
    ) -> None:
        self.table = table
        self.columns = {**key, **columns}
        unknown = sorted(set(unique) - self.columns.keys())
        if unknown:
            raise Refused(f"table {table} has no column {unknown[0]} to tell records apart by; name one of its columns")
        self._unique = [list(self.columns).index(name) for name in unique]
        self._whole = [place for place, kind in enumerate(self.columns.values()) if kind.upper() in _WHOLE]
        types = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        keys = f"PRIMARY KEY ({quoted(key)})" + (f", UNIQUE ({quoted(unique)})" if unique else "")
        self._create = f'CREATE TABLE IF NOT EXISTS "{table}" ({types}, {keys})'

    def prepare(self, cursor: Cursor) -> None:
        cursor.execute(self._create)

    def write(self, cursor: Cursor, rows: Iterable[Row]) -> None:
        """Add rows, with values in the order of `columns`. A row whose key exists is ignored."""
        # Sorted by the second key: two writers of the same keys in different orders would deadlock.
        ordered = sorted(rows, key=self._second_key) if self._unique else rows
        cursor.merge(self.table, list(self.columns), map(self._lossless, ordered))

    def _second_key(self, row: Row) -> list[str]:
        return [repr(row[place]) for place in self._unique]

    def append(self, cursor: Cursor, rows: Iterable[Row]) -> None:
        """Add rows whose keys cannot exist yet, several times faster than `write`. A row whose key exists is an error.

        With exactly once, no key exists until offsets are reset to earlier ones or the topic is created again.
        """
        cursor.load(self.table, list(self.columns), map(self._lossless, rows))

    def _lossless(self, row: Row) -> Row:
        """Return the row. Raises `Refused` for a number that PostgreSQL would silently round."""
        for place in self._whole:
            value = row[place]
            if isinstance(value, float | Decimal) and not (math.isfinite(value) and value == int(value)):
                raise Refused(
                    f"column {list(self.columns)[place]!r} of table {self.table} takes whole numbers, and a row has {value}; round it in the "
                    "pipeline, or give the column another type"
                )
        return row
