"""The database of a sink, and `RowSink` for `foreachBatch`: rows with topic, partition and offset as their key.

The batch is collected to the driver and written there in one transaction; when the function returns, the rows are
durable. So a batch has to fit into the driver: set `maxOffsetsPerTrigger`. For parallel writes by executors, use
Spark's writers inside `foreachBatch`.

A database is named by `sqlite:///path` or `postgresql://user@host/name`. A PostgreSQL password does not belong into the
URL: libpq reads it from `~/.pgpass` or the file in `PGPASSFILE`. Only harmless parameters of a PostgreSQL URL are
taken: other parameters of libpq load a library, read a file of services, or send the password of one host to another.
"""

import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from coordinator_tasks import fleet_values
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.partition_text import cut
from spark_apps.delivery import SinkUnavailable

SQLITE = fleet_values.SQLITE
SQLITE_HEADER = b"SQLite format 3\0"
SQLITE_APPLICATION = slice(68, 72)
"""Place of the application number in a file's header; 0 = no application, as in our files."""
POSTGRESQL = ("postgresql://", "postgres://")
BUSY_TIMEOUT_S = 30.0
POSTGRESQL_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""For libpq: a server whose host is gone ends a transaction after 25 s. Linux would wait for two hours."""
POSTGRESQL_PARAMETERS = frozenset(
    {
        *("user", "password", "host", "port", "dbname", "application_name", "client_encoding", "connect_timeout"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout"),
        *("channel_binding", "gssencmode", "require_auth", "requirepeer", "sslmode", "sslnegotiation", "sslsni"),
        *("ssl_max_protocol_version", "ssl_min_protocol_version", "load_balance_hosts", "target_session_attrs"),
    }
)
POSTGRESQL_FILES = frozenset({"sslcert", "sslcrl", "sslkey", "sslrootcert"})
"""Parameters that are absolute paths.

With a colon libpq would take a key for an engine's key, and load the engine's library.
"""
POSTGRESQL_SESSION = {
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""A writer that stops within a transaction, or loses its host, must not lock its rows for hours."""
KEY = {"topic": "TEXT", "partition": "INTEGER", "offset": "BIGINT"}
"""The place of a record in Kafka: the key of every idempotent row."""

MOST_CHARS = 200
"""Maximum characters of a statement in an error."""
_WHOLE = frozenset({"SMALLINT", "INTEGER", "INT", "BIGINT"})

_SQLITE_PRIMARY = 0xFF
"""The bits of an extended error code with the primary code."""
_SQLITE_AWAY = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR})
_POSTGRESQL_ENDS = frozenset({"57P01", "57P02", "57P03"})
"""A server that shuts down, has crashed, or still starts.

Class 08 is the connection; an error at connecting has no code.
"""

Row = Sequence[Any]


class Cursor(Protocol):
    """The part of DB-API that sinks use; placeholders are `?`."""

    def execute(self, statement: str, values: Row = ()) -> int:
        """Run one statement; returns the number of changed rows."""

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement for each row."""

    def query(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, locked until the end of the transaction."""

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Add many rows in the database's quickest way; a row whose key exists is an error."""

    def exclusively(self, matter: str) -> None:
        """Hold the lock of this name until the end of the transaction; others wait."""


class Database:
    """One connection, made at the first use; one transaction at a time, from any thread.

    `lock_wait_s`: how long a statement waits for locks; `None` = 30 s with SQLite, 10 s with PostgreSQL.
    """

    def __init__(self, url: str, lock_wait_s: float | None = None) -> None:
        if not url.startswith((SQLITE, *POSTGRESQL)):
            scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)  # the rest of the URL may hold a password
            place = f" at '{scheme[0]}'" if scheme else ""
            raise Refused(
                f"a database{place} is neither {SQLITE}path nor postgresql://user@host/name; give such an address, or a NAME that "
                "the settings of the launching host have: databases.NAME (COORDINATOR_DATABASES_NAME)"
            )
        if url.startswith(POSTGRESQL) and find_spec("psycopg") is None:
            raise Refused(
                "a database in PostgreSQL needs psycopg, which is not installed here; "
                "install it: pip install 'kafka-partition-coordinator[postgres]'"
            )
        if url.startswith(POSTGRESQL):
            _check_parameters(url)
        self._url = url
        self._lock_wait_s = lock_wait_s
        self._lock = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """All or nothing; durable when the block has ended. Any error rolls back and is raised.

        Raises `SinkUnavailable` if the server or the file cannot be reached.
        """
        try:
            with self._locked() as cursor:
                yield cursor
        except _driver_error(self._url) as error:
            if not _is_away(error):
                raise
            raise SinkUnavailable(f"the database does not answer: {first_line(error)}") from error

    @contextmanager
    def _locked(self) -> Iterator[Cursor]:
        with self._lock:
            if self._connection is None:
                self._connection = _connect(self._url, self._lock_wait_s)
            cursor = self._connection.cursor()
            try:
                if isinstance(self._connection, sqlite3.Connection):
                    cursor.execute("BEGIN IMMEDIATE")
                yield _Cursor(cursor) if isinstance(self._connection, sqlite3.Connection) else _PostgresCursor(cursor)
                self._connection.commit()
            except BaseException:
                # The rollback first: SQLite keeps its locks while a cursor of a closed connection exists.
                with suppress(Exception):
                    self._connection.rollback()
                self._drop()
                raise

    def another(self, lock_wait_s: float | None = None) -> "Database":
        """The same database by another connection."""
        return Database(self._url, lock_wait_s)

    def is_driver_error(self, error: Exception) -> bool:
        """Return whether this error comes from the database or its connection."""
        return isinstance(error, _driver_error(self._url))

    def close(self) -> None:
        """Close the connection; the next transaction makes a new connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        """Close a broken connection, so that the next transaction makes a new connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_idle: dict[str, list[Database]] = {}


@contextmanager
def borrowed(url: str) -> Iterator[Database]:
    """Yield a database for exclusive use in this process until the block ends.

    A pipeline does not learn of its query's end: the next block gets the connection.
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


class _Cursor:
    """SQLite: a transaction here locks the whole database."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, statement: str, values: Row = ()) -> int:
        self._cursor.execute(self._marked(statement), tuple(self._storable(statement, values)))
        return int(self._cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        self._cursor.executemany(self._marked(statement), (self._storable(statement, row) for row in rows))

    def query(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(self._marked(statement), tuple(self._storable(statement, values)))
        return [tuple(row) for row in self._cursor.fetchall()]

    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        return self.query(statement, values)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        marks = ", ".join("?" for _ in columns)
        self.executemany(f'INSERT INTO "{table}" ({_names(columns)}) VALUES ({marks})', rows)  # noqa: S608 (our own names)

    def exclusively(self, matter: str) -> None:
        """Do nothing: SQLite's transactions are exclusive."""

    def _marked(self, statement: str) -> str:
        return statement

    def _storable(self, statement: str, values: Row) -> Row:
        """The values of a statement; raises `Refused`."""
        for place, value in enumerate(values, 1):
            if isinstance(value, float) and math.isnan(value):
                raise Refused(
                    f"value {place} of `{cut(statement, MOST_CHARS)}` is NaN, which SQLite stores as NULL without a word; give None, a text, or "
                    "a database in PostgreSQL"
                )
        return values


class _PostgresCursor(_Cursor):
    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        return self.query(f"{statement} FOR UPDATE", values)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        with self._cursor.copy(f'COPY "{table}" ({_names(columns)}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row(row)

    def exclusively(self, matter: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtext(?))", [matter])

    def _marked(self, statement: str) -> str:
        return statement.replace("%", "%%").replace("?", "%s")

    def _storable(self, _: str, values: Row) -> Row:
        return values


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _driver_error(url: str) -> type[Exception]:
    if url.startswith(POSTGRESQL):
        import psycopg  # noqa: PLC0415 (only sites with PostgreSQL need its client)

        return psycopg.Error
    return sqlite3.Error


def _is_away(error: Exception) -> bool:
    """Return whether the server or the file is unreachable; failed statements and lock time-outs do not count."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & _SQLITE_PRIMARY in _SQLITE_AWAY
    import psycopg  # noqa: PLC0415 (only sites with PostgreSQL need its client)

    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _POSTGRESQL_ENDS


def first_line(error: Exception) -> str:
    """Return the first line of the error's text, or the error's kind if empty."""
    return str(error).partition("\n")[0] or type(error).__name__


def _check_parameters(url: str) -> None:
    """Raise `Refused`, naming the parameter and no value."""
    import psycopg  # noqa: PLC0415 (only sites with PostgreSQL need its client)

    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        raise Refused("the address of the database cannot be read; write postgresql://user@host/name") from None
    for name, value in given.items():
        if name in POSTGRESQL_FILES and re.fullmatch("/[^:]+|system", str(value)) is None:
            raise Refused(f"the database's parameter {name} is no path; write the path of a file, from the root on")
        if name not in POSTGRESQL_PARAMETERS | POSTGRESQL_FILES:
            raise Refused(
                f"the database's address has the parameter {name}, which is not taken; leave it out: taken are "
                f"{', '.join(sorted(POSTGRESQL_PARAMETERS | POSTGRESQL_FILES))}"
            )


def _connect(url: str, lock_wait_s: float | None) -> Any:
    if url.startswith(POSTGRESQL):
        import psycopg  # noqa: PLC0415 (only sites with PostgreSQL need its client)

        own = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults() if one.val}
        own |= psycopg.conninfo.conninfo_to_dict(url).keys()
        ours = {name: value for name, value in POSTGRESQL_CONNECTION.items() if name not in own}
        server = psycopg.connect(psycopg.conninfo.make_conninfo(url, **ours))
        waiting = {} if lock_wait_s is None else {"lock_timeout": f"{lock_wait_s:g}s"}
        for name, value in {**POSTGRESQL_SESSION, **waiting}.items():
            server.execute(f"SET {name} = '{value}'")
        server.commit()
        return server
    path = Path(url.removeprefix(SQLITE)).absolute()  # errors name the path, and a launched consumer runs in /
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_file(path)
    timeout_s = BUSY_TIMEOUT_S if lock_wait_s is None else lock_wait_s
    try:
        connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        error.args = (f"{error}: {path}",)
        raise
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _check_file(path: Path) -> None:
    """Raise `Refused` for an existing file that is no SQLite database, or belongs to another program.

    It is not overwritten.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise Refused(f"{path} is no regular file, so it can be no SQLite database; name a file that does not exist")
    header = b""
    with suppress(OSError), path.open("rb") as file:  # SQLite reports why the file cannot be opened
        header = file.read(SQLITE_APPLICATION.stop)
    if header and (not header.startswith(SQLITE_HEADER) or any(header[SQLITE_APPLICATION])):
        raise Refused(f"{path} is there and is no SQLite database of a pipeline; name a file that does not exist")


class RowSink:
    """Rows keyed by (topic, partition, offset), or a longer `key`: writing a record again changes nothing.

    `columns` are the further columns, name → SQL type. `unique` names columns as a second key of records: the first row
    of a value stays, later rows with the value change nothing; nulls are never equal.
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
        marks = ", ".join("?" for _ in self.columns)
        types = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        keys = f"PRIMARY KEY ({_names(key)})" + (f", UNIQUE ({_names(unique)})" if unique else "")
        self._create = f'CREATE TABLE IF NOT EXISTS "{table}" ({types}, {keys})'
        # All names come from our own code, all values are bound.
        self._insert = f'INSERT INTO "{table}" ({_names(self.columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING'  # noqa: S608

    def prepare(self, cursor: Cursor) -> None:
        """Create the table where it is missing."""
        cursor.execute(self._create)

    def write(self, cursor: Cursor, rows: Iterable[Row]) -> None:
        """Add rows, values in the order of `columns`; a row whose key exists changes nothing."""
        # In a fixed order of the second keys: two writers of the same keys would wait for each other.
        ordered = sorted(rows, key=self._second_key) if self._unique else rows
        cursor.executemany(self._insert, map(self._lossless, ordered))

    def _second_key(self, row: Row) -> list[str]:
        return [repr(row[place]) for place in self._unique]

    def append(self, cursor: Cursor, rows: Iterable[Row]) -> None:
        """Add rows that cannot exist yet, several times quicker; a row whose key exists is an error.

        With exactly once, rows cannot exist yet until offsets are reset to earlier ones, or the topic is created again.
        """
        cursor.load(self.table, list(self.columns), map(self._lossless, rows))

    def _lossless(self, row: Row) -> Row:
        """Return the row; raises `Refused` for a number that PostgreSQL would silently round."""
        for place in self._whole:
            value = row[place]
            if isinstance(value, float | Decimal) and not (math.isfinite(value) and value == int(value)):
                raise Refused(
                    f"column {list(self.columns)[place]!r} of table {self.table} takes whole numbers, and a row has {value}; round it in the "
                    "pipeline, or give the column another type"
                )
        return row
