"""MySQL and MariaDB at `mysql://user@host/name`.

Keep the password out of the address, in an option file: the group `[client]` of `~/.my.cnf` or of the address's
`defaults_file`. Texts are compared byte by byte, as in the other databases. Tables have to be InnoDB tables.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import MAX_ID_BYTES, MAX_TOPIC_CHARS
from coordinator_tasks.core.text.partition_text import cut
from spark_apps.delivery.dialects import Cursor, Dialect, Row, insertion, quoted

try:
    import pymysql
    from pymysql.constants import CR, ER
except ImportError as missing:
    raise Refused(
        "a database in MySQL or MariaDB needs pymysql, which is not installed here; "
        "install it: pip install 'kafka-partition-coordinator[mysql]'"
    ) from missing

_TIMES = {"connect_timeout": 10, "read_timeout": 60, "write_timeout": 25}
_FILES = frozenset({"defaults_file", "ssl_ca", "ssl_cert", "ssl_key", "unix_socket"})
_PARAMETERS = _FILES | {"connect_timeout", "ssl_verify_cert", "ssl_verify_identity"}
LOCK_WAIT_S = 10.0
_SESSION = (
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    # The server closes the connection of a writer that stops within a transaction or loses its host.
    "SET SESSION wait_timeout = 60",
)
_KEY_BYTES = 3_072
"""InnoDB's limit for all columns of a key together. A character takes 4 bytes."""
_LONGEST_KEY = 255
"""Maximum characters of a text in a key."""
_LONGEST_BYTES = 1_000
"""Maximum bytes of a binary column in a key."""
_BOUNDED = {"cluster": MAX_ID_BYTES, "topic": MAX_TOPIC_CHARS, "topic_id": 36}
"""Maximum characters of texts with a limit of their own. Shorter columns leave more of a key to other texts."""
_NUMBER_BYTES = 8
_KEYS = re.compile(r"(?:PRIMARY KEY|UNIQUE) \((.*?)\)", re.IGNORECASE)
_KEY = re.compile(r'"?(\w+)"? (?:TEXT|BYTEA)(?: NOT NULL)? (?:PRIMARY KEY|UNIQUE)\b', re.IGNORECASE)
_TYPES = {"TEXT": "LONGTEXT", "BYTEA": "LONGBLOB"}
_COLUMN = re.compile(r'("?)(\w+)\1 (TEXT|BYTEA)\b', re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_ENDS_TRANSACTION = re.compile(r"\s*(ALTER|CREATE\s+(?!TEMPORARY)|DROP|RENAME|TRUNCATE)\b", re.IGNORECASE)
_CHANGES = re.compile(r"\s*(DELETE|INSERT|REPLACE|UPDATE)\b", re.IGNORECASE)
_GONE = frozenset(
    {
        *(0, CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST),
        *(ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR, ER.NEW_ABORTING_CONNECTION),
    }
)
_OF_ROW = frozenset({1292, 1366, 3819, 4025})
"""Error codes of refused values and failed checks that have no separate class in pymysql."""


class _Connection(pymysql.connections.Connection):  # type: ignore[misc]
    """Configures the session after each connect, because an idle connection is replaced."""

    def __init__(self, session: Sequence[str], **options: Any) -> None:
        self._statements = session
        super().__init__(**options)

    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        with self.cursor() as cursor:
            for statement in self._statements:
                cursor.execute(statement)
            cursor.execute("SELECT VERSION()")
            (version,) = cursor.fetchone()
            # Without padding: "a" and "a " are different keys.
            exact = "utf8mb4_nopad_bin" if "mariadb" in version.lower() else "utf8mb4_0900_bin"
            cursor.execute(f"SET NAMES utf8mb4 COLLATE {exact}")
        self.table_options = f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={exact}"


class _Cursor(Cursor):
    def __init__(self, cursor: Any, table_options: str) -> None:
        super().__init__(cursor)
        self._table_options = table_options
        self._changed = False

    def execute(self, statement: str, values: Row = ()) -> int:
        if _ENDS_TRANSACTION.match(statement) and self._changed:
            raise Refused(
                f"MySQL would commit the rows of this transaction before `{cut(statement, 200)}`; create tables in "
                "`prepare`, before any row"
            )
        if _CREATE.match(statement):
            statement = f"{_typed(statement)} {self._table_options}"
        self._note(statement)
        return super().execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        self._note(statement)
        many = list(rows)
        if many:
            super().executemany(statement, many)

    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        return self.query(f"{statement} FOR UPDATE", values)

    def has_table(self, table: str) -> bool:
        found = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
        return self.query(found, [table]) != []

    def make_index(self, name: str, table: str, columns: Sequence[str], where: str) -> None:  # noqa: ARG002 - indexes hold all rows
        found = "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = ?"
        if not self.query(found, [name]):
            self.execute(f'CREATE INDEX {name} ON "{table}" ({quoted(columns)})')

    def merge(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        first = columns[0]
        self.executemany(f'{insertion(table, columns)} ON DUPLICATE KEY UPDATE "{first}" = "{first}"', rows)

    def replace(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterable[Row]) -> None:
        changes = ", ".join(f'"{name}" = VALUES("{name}")' for name in columns if name not in key)
        self.executemany(f"{insertion(table, columns)} ON DUPLICATE KEY UPDATE {changes}", rows)

    def _note(self, statement: str) -> None:
        self._changed = self._changed or _CHANGES.match(statement) is not None

    def _marked(self, statement: str) -> str:
        return statement.replace("%", "%%").replace("?", "%s")


def _typed(statement: str) -> str:
    """Return a `CREATE TABLE` statement with MySQL's types. A text in a key needs a length."""
    keys = [[name.strip(' "') for name in found.split(",")] for found in _KEYS.findall(statement)]
    keys += [[name] for name in _KEY.findall(statement)]
    kinds = {name: kind.upper() for _, name, kind in _COLUMN.findall(statement)}
    lengths: dict[str, int] = {}
    for key in keys:
        for name, length in _lengths(key, kinds).items():
            lengths[name] = min(length, lengths.get(name, length))

    def typed(column: re.Match[str]) -> str:
        quote, name, kind = column.groups()
        sized = {"TEXT": "VARCHAR", "BYTEA": "VARBINARY"}[kind.upper()]
        mine = f"{sized}({lengths[name]})" if name in lengths else _TYPES[kind.upper()]
        return f"{quote}{name}{quote} {mine}"

    return _COLUMN.sub(typed, statement)


def _lengths(key: Sequence[str], kinds: Mapping[str, str]) -> dict[str, int]:
    """Return the lengths of a key's text and binary columns, such that the key fits."""
    texts = [name for name in key if kinds.get(name) == "TEXT"]
    binaries = {name: _LONGEST_BYTES for name in key if kinds.get(name) == "BYTEA"}
    left = (_KEY_BYTES - sum(binaries.values()) - _NUMBER_BYTES * (len(key) - len(texts) - len(binaries))) // 4
    if left >= _LONGEST_KEY * len(texts):
        return binaries | dict.fromkeys(texts, _LONGEST_KEY)
    bounded = {name: _BOUNDED[name] for name in texts if name in _BOUNDED}
    others = [name for name in texts if name not in bounded]
    share = (left - sum(bounded.values())) // max(1, len(others))
    return binaries | bounded | dict.fromkeys(others, min(share, _LONGEST_KEY))


class MySQL(Dialect):
    """See the module."""

    error = pymysql.Error

    def check(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            whole = parts.port is None or parts.port > 0
        except ValueError:
            whole, given, parts = False, {}, urlsplit("")
        if not whole or not parts.path.strip("/"):
            raise Refused("the address of the database cannot be read; write mysql://user@host/name")
        for name, value in given.items():
            if name in _FILES and not value.startswith("/"):
                raise Refused(f"the database's parameter {name} is no path; write the path of a file, from the root on")
            if name not in _PARAMETERS:
                raise Refused(
                    f"the database's address has the parameter {name}, which is not taken; leave it out: taken are "
                    f"{', '.join(sorted(_PARAMETERS))}"
                )

    def connect(self, url: str, lock_wait_s: float | None) -> _Connection:
        wait_s = max(1, round(LOCK_WAIT_S if lock_wait_s is None else lock_wait_s))
        return _Connection((*_SESSION, f"SET SESSION innodb_lock_wait_timeout = {wait_s}"), **_options(url))

    def begin(self, connection: _Connection) -> Cursor:
        try:
            connection.ping(reconnect=False)
        except pymysql.Error:  # the server has closed the idle connection
            connection.connect()
        connection.begin()
        return _Cursor(connection.cursor(), connection.table_options)

    def is_away(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] in _GONE

    def blames_row(self, error: Exception) -> bool:
        if isinstance(error, pymysql.DataError | pymysql.IntegrityError):
            return True
        return bool(error.args) and error.args[0] in _OF_ROW

    def dataset(self, url: str, table: str) -> tuple[str, str]:
        parts = urlsplit(url)
        return f"mysql://{parts.hostname or 'localhost'}:{parts.port or 3306}", f"{parts.path[1:]}.{table}"


def _options(url: str) -> Mapping[str, Any]:
    """Return the arguments of a connection. An argument overrides the option file."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    known = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}
    options: dict[str, Any] = {
        name: unquote(value) if isinstance(value, str) else value for name, value in known.items() if value is not None
    }
    defaults = Path(given.pop("defaults_file", Path.home() / ".my.cnf"))
    if defaults.is_file():
        options["read_default_file"] = str(defaults)
    for name in ("ssl_verify_cert", "ssl_verify_identity"):
        if name in given:
            options[name] = given.pop(name) not in ("0", "false")
    options |= _TIMES | given
    options["connect_timeout"] = int(options["connect_timeout"])
    return {**options, "database": unquote(parts.path[1:]), "charset": "utf8mb4", "autocommit": False}


DIALECT = MySQL()
