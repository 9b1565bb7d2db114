"""Reads the audit sink: a SQLite file per consumer and incarnation, a row per processing. Never blocks a writer."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.demo.evidence import Row

BUSY_TIMEOUT_S = 10.0
QUESTION = "SELECT consumer, incarnation, epoch, partition, offset, sequence, produced_at, processed_at FROM audit ORDER BY rowid"

LAST_QUESTION = (
    "SELECT partition, MAX(produced_at) FROM (SELECT partition, produced_at FROM audit ORDER BY rowid DESC LIMIT 5000) "
    "GROUP BY partition"
)


def rows(folder: Path) -> list[Row]:
    """Return all rows, in the order of each writer."""
    return [Row(*values) for database in _files(folder) for values in _ask(database, QUESTION)]


def processed(folder: Path) -> dict[str, int]:
    """Return consumer → its number of rows."""
    found: dict[str, int] = {}
    for database in _files(folder):
        consumer = database.stem.rpartition("-")[0]
        for (count,) in _ask(database, "SELECT COALESCE(MAX(rowid), 0) FROM audit"):
            found[consumer] = found.get(consumer, 0) + int(count)
    return found


def last_offsets(folder: Path) -> dict[int, int]:
    """Return partition → the largest offset in the sink."""
    return _largest(folder, "SELECT partition, MAX(offset) FROM audit GROUP BY partition")


def newest(folder: Path) -> dict[int, float]:
    """Return partition → when its newest processed record was produced, by the last rows of each writer."""
    return _largest(folder, LAST_QUESTION)


def _largest(folder: Path, question: str) -> dict[int, Any]:
    """Return partition → the largest answer of all writers."""
    found: dict[int, Any] = {}
    for partition, value in (row for database in _files(folder) for row in _ask(database, question)):
        found[partition] = max(found.get(partition, value), value)
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sqlite"))


def _ask(database: Path, question: str) -> Iterator[tuple[Any, ...]]:
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
    ) as connection:
        try:
            yield from connection.execute(question).fetchall()
        except sqlite3.OperationalError as error:
            # A file that was just created has no table yet.
            if "no such table" not in str(error):
                raise
