"""SQLite: a file, at `sqlite:///path`. A transaction locks the whole file."""

import math
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.partition_text import cut
from coordinator_tasks.fleet_values import SQLITE
from spark_apps.delivery.dialects import Cursor, Dialect, Row

BUSY_TIMEOUT_S = 30.0
CACHE_KIB = 16_000
"""SQLite's cache in KiB. A batch of 1,000 state keys changes about 1,000 pages, which SQLite's 2 MB cannot keep."""
MOST_CHARS = 200
"""Maximum characters of a statement in an error."""
_HEADER = b"SQLite format 3\0"
_APPLICATION = slice(68, 72)
"""Place of the application number in a file's header. Our files have 0, which means no application."""
_PRIMARY = 0xFF
"""The bits of an extended error code with the primary code."""
_AWAY = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR})
_OF_ROW = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG})
_NO_FILE = (0, 0)
_checking = threading.Lock()
_checked: set[tuple[int, int]] = set()
"""Device and number of the checked files. A file to which this process has a connection must not be opened and closed.

The close would release SQLite's locks on the file. Another process could then delete the journal that this process
still writes, and the rows would be lost.
"""


class _Cursor(Cursor):
    BY_KEY = "WITHOUT ROWID"

    def _storable(self, statement: str, values: Row) -> Row:
        for place, value in enumerate(values, 1):
            if isinstance(value, float) and math.isnan(value):
                raise Refused(
                    f"value {place} of `{cut(statement, MOST_CHARS)}` is NaN, which SQLite stores as NULL without a word; give None, a text, or "
                    "a database in PostgreSQL"
                )
        return values


class SQLite(Dialect):
    """See the module."""

    error = sqlite3.Error

    def check(self, url: str) -> None:
        if not url.startswith(SQLITE):
            raise Refused(f"the address of the database has no path; write {SQLITE}path")

    def connect(self, url: str, lock_wait_s: float | None) -> sqlite3.Connection:
        path = _path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_once(path)
        timeout_s = BUSY_TIMEOUT_S if lock_wait_s is None else lock_wait_s
        try:
            connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            error.args = (f"{error}: {path}",)
            raise
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        return connection

    def begin(self, connection: sqlite3.Connection) -> Cursor:
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        return _Cursor(cursor)

    def is_away(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & _PRIMARY in _AWAY

    def blames_row(self, error: Exception) -> bool:
        if isinstance(error, sqlite3.DataError | sqlite3.InterfaceError | sqlite3.ProgrammingError):
            return True
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & _PRIMARY in _OF_ROW

    def dataset(self, url: str, table: str) -> tuple[str, str]:
        return "file", f"{_path(url)}#{table}"


def _path(url: str) -> Path:
    return Path(url.removeprefix(SQLITE)).absolute()  # errors name the path, and a launched consumer runs in /


def _check_once(path: Path) -> None:
    """Check the file before this process's first connection, and create the file if missing."""
    with _checking:
        if _identity(path) not in _checked:
            _check_file(path)
            with suppress(OSError):  # SQLite itself reports why the file cannot be opened
                path.touch()
            _checked.add(_identity(path))
            _checked.discard(_NO_FILE)


def _identity(path: Path) -> tuple[int, int]:
    """Return device and number of a file; zeros for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return _NO_FILE
    return found.st_dev, found.st_ino


def _check_file(path: Path) -> None:
    """Raise `Refused` if an existing file is no SQLite database, or has the application number of another program.

    Nothing is written into a refused file. A database without such a number may have a site's tables; a sink adds its
    own.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise Refused(f"{path} is no regular file, so it can be no SQLite database; name a file that does not exist")
    header = b""
    with suppress(OSError), path.open("rb") as file:  # SQLite itself reports why the file cannot be opened
        header = file.read(_APPLICATION.stop)
    if header and (not header.startswith(_HEADER) or any(header[_APPLICATION])):
        raise Refused(
            f"{path} is a file of another program (no SQLite database, or one with an application number), so nothing is "
            "written there; name another file"
        )


DIALECT = SQLite()
