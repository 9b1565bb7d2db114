"""PostgreSQL at `postgresql://user@host/name`.

Keep the password out of the address: libpq reads the password from `~/.pgpass` or the file in `PGPASSFILE`. An address
may have only harmless parameters: with others, libpq loads a library, reads a service file, or sends one host's
password to another.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery.dialects import Cursor, Dialect, Row, quoted, replacement

try:
    import psycopg
except ImportError as missing:
    raise Refused(
        "a database in PostgreSQL needs psycopg, which is not installed here; "
        "install it: pip install 'kafka-partition-coordinator[postgres]'"
    ) from missing

_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""Settings for libpq. A transaction ends 25 s after its host is lost; Linux alone would wait for two hours."""
_PARAMETERS = frozenset(
    {
        *("user", "password", "host", "port", "dbname", "application_name", "client_encoding", "connect_timeout"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout"),
        *("channel_binding", "gssencmode", "require_auth", "requirepeer", "sslmode", "sslnegotiation", "sslsni"),
        *("ssl_max_protocol_version", "ssl_min_protocol_version", "load_balance_hosts", "target_session_attrs"),
    }
)
_FILES = frozenset({"sslcert", "sslcrl", "sslkey", "sslrootcert"})
"""Parameters whose values are absolute paths.

If a key's path had a colon, libpq would take it for the key of an engine, and load the engine's library.
"""
_SESSION = {
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Session settings. A writer that stops within a transaction, or loses its host, must not lock its rows for hours."""
STAGED_ROWS = 500
"""Rows from which COPY into a temporary table and one INSERT are faster than an INSERT per row."""
_MAY_STAGE = "SELECT has_database_privilege(current_database(), 'TEMP')"
_ENDS = frozenset({"57P01", "57P02", "57P03"})
"""Error codes of a server that shuts down, has crashed, or is still starting.

Codes of class 08 concern the connection. An error while connecting has no code.
"""

_OF_ROW = ("21", "22", "23", "44", "54000", "P0")
"""Error classes that a row may cause: cardinality, data, constraints, views' checks, long index values, triggers."""


class _Cursor(Cursor):
    # Room in each page, so that a changed row stays in its page and no index changes.
    BY_KEY = "WITH (fillfactor = 80)"

    def __init__(self, cursor: Any) -> None:
        super().__init__(cursor)
        self._used: set[str] = set()

    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        return self.query(f"{statement} FOR UPDATE", values)

    def has_table(self, table: str) -> bool:
        return self.query("SELECT to_regclass(?) IS NOT NULL", [table]) == [(True,)]

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        with self._cursor.copy(f'COPY "{table}" ({quoted(columns)}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row(row)

    def query_in(self, statement: str, values: Row, column: str, wanted: Sequence[Any]) -> list[tuple[Any, ...]]:
        # A batch's thousands of keys take less time in the binary form.
        given = (*self._storable(statement, values), list(wanted))
        self._cursor.execute(f"{self._marked(statement)} AND {column} = ANY(%b)", given, binary=True)
        return [tuple(row) for row in self._cursor.fetchall()]

    def merge(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        many = list(rows)
        if not self._staged(table, columns, many, "ON CONFLICT DO NOTHING"):
            super().merge(table, columns, many)

    def replace(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterable[Row]) -> None:
        many = list(rows)
        if not self._staged(table, columns, many, replacement(columns, key)):
            super().replace(table, columns, key, many)

    def _staged(self, table: str, columns: Sequence[str], rows: Sequence[Row], conflict: str) -> bool:
        """Add the rows through a temporary table. Return False for few rows, or without the right to such tables."""
        if len(rows) < STAGED_ROWS or self.query(_MAY_STAGE) != [(True,)]:
            return False
        staged, names = f"staged_{table}", quoted(columns)
        # The table lives as long as the connection, because a table per batch would fill the catalogue.
        kept = f'TEMPORARY TABLE IF NOT EXISTS "{staged}" ON COMMIT DELETE ROWS'
        self.execute(f'CREATE {kept} AS SELECT {names} FROM "{table}" WITH NO DATA')  # noqa: S608 (our own names)
        if staged in self._used:
            self.execute(f'TRUNCATE "{staged}"')
        self._used.add(staged)
        self.load(staged, columns, rows)
        self.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{staged}" {conflict}')  # noqa: S608
        return True

    def exclusively(self, matter: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtext(?))", [matter])

    def _marked(self, statement: str) -> str:
        return statement.replace("%", "%%").replace("?", "%s")


class PostgreSQL(Dialect):
    """See the module."""

    error = psycopg.Error

    def check(self, url: str) -> None:
        try:
            given = psycopg.conninfo.conninfo_to_dict(url)
        except (psycopg.ProgrammingError, UnicodeError):
            raise Refused("the address of the database cannot be read; write postgresql://user@host/name") from None
        for name, value in given.items():
            if name in _FILES and re.fullmatch("/[^:]+|system", str(value)) is None:
                raise Refused(f"the database's parameter {name} is no path; write the path of a file, from the root on")
            if name not in _PARAMETERS | _FILES:
                raise Refused(
                    f"the database's address has the parameter {name}, which is not taken; leave it out: taken are "
                    f"{', '.join(sorted(_PARAMETERS | _FILES))}"
                )

    def connect(self, url: str, lock_wait_s: float | None) -> psycopg.Connection[Any]:
        own = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults() if one.val}
        own |= psycopg.conninfo.conninfo_to_dict(url).keys()
        ours = {name: value for name, value in _CONNECTION.items() if name not in own}
        server = psycopg.connect(psycopg.conninfo.make_conninfo(url, **ours))
        waiting = {} if lock_wait_s is None else {"lock_timeout": f"{lock_wait_s:g}s"}
        for name, value in {**_SESSION, **waiting}.items():
            server.execute(f"SET {name} = '{value}'")
        server.commit()
        return server

    def begin(self, connection: psycopg.Connection[Any]) -> Cursor:
        return _Cursor(connection.cursor())

    def is_away(self, error: Exception) -> bool:
        if not isinstance(error, psycopg.OperationalError):
            return False
        return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _ENDS

    def blames_row(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state is None:  # the client cannot send a value
            return isinstance(error, psycopg.DataError | psycopg.ProgrammingError)
        return str(state).startswith(_OF_ROW)

    def dataset(self, url: str, table: str) -> tuple[str, str]:
        # Newer releases of Python refuse several hosts of IPv6 in `urlsplit`.
        place, _, database = re.split("[?#]", url.partition("://")[2], maxsplit=1)[0].partition("/")
        hosts = place.rpartition("@")[2].lower().split(",")
        return f"postgres://{','.join(map(_with_port, hosts))}", f"{database}.public.{table}"


def _with_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, ""
    return f"{name or 'localhost'}:{port or 5432}"


DIALECT = PostgreSQL()
