"""Sinks for `foreachBatch`: rows keyed by where they come from, and an audit of every processing.

The batch is collected to the driver and written there in one transaction; when the function returns, the rows are
durable. So a batch has to fit into the driver: set `maxOffsetsPerTrigger`. For sinks that executors write to in
parallel use Spark's own writers inside `foreachBatch`.

A database is named by `sqlite:///path` or `postgresql://user@host/name`. A PostgreSQL password does not belong into
that text: libpq reads it from `~/.pgpass` or the file in `PGPASSFILE`.
"""

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from coordinator_tasks.core.errors import Refused

SQLITE = "sqlite:///"
POSTGRESQL = ("postgresql://", "postgres://")
BUSY_TIMEOUT_S = 30.0
KEY = {"topic": "TEXT", "partition": "INTEGER", "offset": "BIGINT"}
"""Where a record comes from: the key of every idempotent row."""

Row = Sequence[Any]


class Cursor(Protocol):
    """The part of DB-API that we use; placeholders are `?`."""

    def execute(self, statement: str, values: Row = ()) -> int:
        """Run one statement; returns the number of rows that it touched."""

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement for each row."""

    def query(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """All rows of a question."""


class Database:
    """One connection, made at the first use; one transaction at a time, from whatever thread."""

    def __init__(self, url: str) -> None:
        if not url.startswith((SQLITE, *POSTGRESQL)):
            raise Refused(f"the database '{url}' is neither {SQLITE}path nor postgresql://user@host/name")
        self._url = url
        self._lock = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """All or nothing; durable when the block has ended. Any error rolls back and is raised."""
        with self._lock:
            if self._connection is None:
                self._connection = _connect(self._url)
            cursor = self._connection.cursor()
            try:
                if isinstance(self._connection, sqlite3.Connection):
                    cursor.execute("BEGIN IMMEDIATE")
                yield _Cursor(cursor, "?" if isinstance(self._connection, sqlite3.Connection) else "%s")
                self._connection.commit()
            except BaseException:
                # The rollback first: SQLite keeps its locks while somebody holds on to a cursor of a closed connection.
                with suppress(Exception):
                    self._connection.rollback()
                self._drop()
                raise

    def close(self) -> None:
        """End the connection; the next transaction makes a new one."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        """After a broken connection the next transaction has to connect again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Cursor:
    def __init__(self, cursor: Any, placeholder: str) -> None:
        self._cursor = cursor
        self._placeholder = placeholder

    def execute(self, statement: str, values: Row = ()) -> int:
        self._cursor.execute(statement.replace("?", self._placeholder), tuple(values))
        return int(self._cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        self._cursor.executemany(statement.replace("?", self._placeholder), rows)

    def query(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(statement.replace("?", self._placeholder), tuple(values))
        return [tuple(row) for row in self._cursor.fetchall()]


def _connect(url: str) -> Any:
    if url.startswith(POSTGRESQL):
        import psycopg  # noqa: PLC0415 (only who uses PostgreSQL needs its client)

        return psycopg.connect(url)
    path = Path(url.removeprefix(SQLITE))
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


class RowSink:
    """Rows keyed by (topic, partition, offset): writing a record again changes nothing.

    `columns` are the further columns, name → SQL type.
    """

    def __init__(self, table: str, columns: Mapping[str, str]) -> None:
        self.table = table
        self.columns = {**KEY, **columns}
        names = ", ".join(f'"{name}"' for name in self.columns)
        marks = ", ".join("?" for _ in self.columns)
        key = ", ".join(f'"{name}"' for name in KEY)
        types = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        self._create = f'CREATE TABLE IF NOT EXISTS "{table}" ({types}, PRIMARY KEY ({key}))'
        # All names come from our own code, all values are bound.
        self._insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks}) ON CONFLICT ({key}) DO NOTHING'  # noqa: S608

    def prepare(self, cursor: Cursor) -> None:
        """Create the table where it is missing."""
        cursor.execute(self._create)

    def write(self, cursor: Cursor, rows: Iterable[Row]) -> None:
        """Add rows, values in the order of `columns`."""
        cursor.executemany(self._insert, rows)


AUDIT_COLUMNS = (
    ("topic", "TEXT"),
    ("partition", "INTEGER"),
    ("offset", "BIGINT"),
    ("consumer", "TEXT"),
    ("incarnation", "BIGINT"),
    ("epoch", "BIGINT"),
    ("sequence", "BIGINT"),
    ("produced_at", "DOUBLE PRECISION"),
    ("processed_at", "DOUBLE PRECISION"),
)

_ADD_AUDIT = f"INSERT INTO audit VALUES ({', '.join('?' for _ in AUDIT_COLUMNS)})"  # noqa: S608 (marks only)


class AuditSink:
    """Every processing of every record, duplicates included: append-only, without a key.

    One SQLite file per consumer and incarnation in `folder`, so writers never wait for each other, and a killed one
    leaves whole batches only. `processed_at` is when the batch was written, in seconds since 1970.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._databases: dict[tuple[str, int], Database] = {}

    def append(self, rows: pa.Table) -> None:
        """Write one batch; `rows` has the columns of `AUDIT_COLUMNS` without the last. Durable on return."""
        if rows.num_rows == 0:
            return
        owner = (str(rows["consumer"][0]), int(rows["incarnation"][0].as_py()))
        database = self._databases.get(owner) or self._open(owner)
        values = [rows[name].to_pylist() for name, _ in AUDIT_COLUMNS[:-1]]
        with database.transaction() as cursor:
            now = time.time()
            cursor.executemany(_ADD_AUDIT, zip(*values, [now] * rows.num_rows, strict=True))

    def close(self) -> None:
        """Close the files."""
        for database in self._databases.values():
            database.close()

    def _open(self, owner: tuple[str, int]) -> Database:
        consumer, incarnation = owner
        database = Database(f"{SQLITE}{self._folder / f'{consumer}-{incarnation}.sqlite'}")
        types = ", ".join(f'"{name}" {kind}' for name, kind in AUDIT_COLUMNS)
        with database.transaction() as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS audit ({types})")
        self._databases[owner] = database
        return database


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """All rows of an audit folder, in the order of each writer; also while writers are at work."""
    found: list[dict[str, Any]] = []
    names = [name for name, _ in AUDIT_COLUMNS]
    for path in sorted(folder.glob("*.sqlite")):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
        try:
            rows = connection.execute("SELECT * FROM audit ORDER BY rowid").fetchall()
        finally:
            connection.close()
        found.extend(dict(zip(names, row, strict=True)) for row in rows)
    return found
