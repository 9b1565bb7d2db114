"""The SQL dialects of a sink's database. Each dialect is a file, named after the scheme of the database's address.

A dialect has everything that differs between databases: addresses, connections, statements, and errors.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Protocol, cast

from coordinator_tasks.core.errors import Refused

ALIASES = {"mariadb": "mysql", "postgres": "postgresql"}
"""Other schemes of an address → the dialect's file."""

MOST_MARKS = 500
"""Maximum values that one statement compares a column with."""

Row = Sequence[Any]


class Cursor:
    """DB-API's cursor as sinks use it, in a transaction; placeholders are `?`. A dialect overrides differences."""

    BY_KEY: ClassVar[str] = ""
    """End of a `CREATE TABLE` statement for tables whose rows are found and replaced by their primary key."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, statement: str, values: Row = ()) -> int:
        """Run one statement. Return the number of changed rows."""
        self._cursor.execute(self._marked(statement), tuple(self._storable(statement, values)))
        return int(self._cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Row]) -> None:
        self._cursor.executemany(self._marked(statement), [self._storable(statement, row) for row in rows])

    def query(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(self._marked(statement), tuple(self._storable(statement, values)))
        return [tuple(row) for row in self._cursor.fetchall()]

    def query_locked(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, locked until the end of the transaction."""
        return self.query(statement, values)

    def query_in(self, statement: str, values: Row, column: str, wanted: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows with one of the wanted values in the column. The statement ends with a condition."""
        found: list[tuple[Any, ...]] = []
        for first in range(0, len(wanted), MOST_MARKS):
            some = wanted[first : first + MOST_MARKS]
            marks = ", ".join("?" for _ in some)
            found += self.query(f"{statement} AND {column} IN ({marks})", (*values, *some))
        return found

    def columns(self, table: str) -> list[str]:
        self._cursor.execute(f'SELECT * FROM "{table}" LIMIT 0')  # noqa: S608 (our own name)
        return [str(column[0]) for column in self._cursor.description]

    @contextmanager
    def savepoint(self, undone: Callable[[Exception], bool]) -> Iterator[None]:
        """Undo the block if it ends with an error that `undone` accepts. Every error is raised.

        After an error that `undone` does not accept, the transaction has to end.
        """
        self.execute("SAVEPOINT part")
        try:
            yield
        except Exception as error:
            if undone(error):
                self.execute("ROLLBACK TO SAVEPOINT part")
                self.execute("RELEASE SAVEPOINT part")
            raise
        self.execute("RELEASE SAVEPOINT part")

    def has_table(self, table: str) -> bool:
        return self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [table]) != []

    def make_index(self, name: str, table: str, columns: Sequence[str], where: str) -> None:
        """Create the index of the rows that match `where`, if missing; of all rows if the dialect has no such index."""
        self.execute(f'CREATE INDEX IF NOT EXISTS {name} ON "{table}" ({quoted(columns)}) WHERE {where}')

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Add many rows in the database's fastest way. A row whose key exists is an error."""
        self.executemany(insertion(table, columns), rows)

    def merge(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Add the rows in order. A row whose key exists is ignored."""
        self.executemany(f"{insertion(table, columns)} ON CONFLICT DO NOTHING", rows)

    def replace(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterable[Row]) -> None:
        """Add the rows. A row replaces the present row with the same key. No key comes twice."""
        self.executemany(f"{insertion(table, columns)} {replacement(columns, key)}", rows)

    def exclusively(self, matter: str) -> None:
        """Hold the lock with this name until the end of the transaction, so that other transactions wait."""

    def _marked(self, statement: str) -> str:
        return statement

    def _storable(self, statement: str, values: Row) -> Row:  # noqa: ARG002 - a dialect names the statement
        """Return the values as the driver takes them; raises `Refused`."""
        return values


class Dialect(Protocol):
    """A kind of database. `error`: the base class of the driver's errors."""

    error: type[Exception]

    def check(self, url: str) -> None:
        """Raise `Refused` for a harmful or unreadable address. The error shows no value, which may be a password."""

    def connect(self, url: str, lock_wait_s: float | None) -> Any:
        """Return a DB-API connection. `lock_wait_s`: see `Database`."""

    def begin(self, connection: Any) -> Cursor:
        """Begin a transaction."""

    def is_away(self, error: Exception) -> bool:
        """Return whether the server or the file is unreachable. Failed statements and lock time-outs do not count."""

    def blames_row(self, error: Exception) -> bool:
        """Return whether a row's values may have caused the error; no full disk, lock time-out or missing table."""

    def dataset(self, url: str, table: str) -> tuple[str, str]:
        """Return the table's namespace and name in OpenLineage."""


def dialect_of(url: str) -> Dialect:
    """Return the dialect of a database's address. Raises `Refused` without the address, which may hold a password."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", url)
    name = ALIASES.get(scheme[1], scheme[1]) if scheme else ""
    known = sorted(file.name for file in iter_modules(__path__))
    if name not in known:
        place = f" at '{scheme[0]}'" if scheme else ""
        raise Refused(
            f"a database{place} is none of {', '.join(known)}; give an address such as sqlite:///path or "
            "postgresql://user@host/name, or a NAME that the settings of the launching host have: databases.NAME "
            "(COORDINATOR_DATABASES_NAME)"
        )
    return cast(Dialect, import_module(f"{__name__}.{name}").DIALECT)


def dialect_of_error(error: Exception) -> Dialect | None:
    """Return the dialect whose driver raised the error; `None` for other errors."""
    loaded = (sys.modules.get(f"{__name__}.{file.name}") for file in iter_modules(__path__))
    dialects = [cast(Dialect, module.DIALECT) for module in loaded if module is not None]
    return next((one for one in dialects if isinstance(error, one.error)), None)


def insertion(table: str, columns: Sequence[str]) -> str:
    """Return the statement that adds a row. All names come from our own code; all values are bound."""
    return f'INSERT INTO "{table}" ({quoted(columns)}) VALUES ({", ".join("?" for _ in columns)})'  # noqa: S608


def replacement(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the end of an `INSERT` that replaces the values of rows whose key exists."""
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
    return f"ON CONFLICT ({quoted(key)}) DO UPDATE SET {changes}"


def quoted(columns: Iterable[str]) -> str:
    """Return the names of columns as SQL."""
    return ", ".join(f'"{name}"' for name in columns)
