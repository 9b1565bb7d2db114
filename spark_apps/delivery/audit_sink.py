"""An audit of every processing, in SQLite files, for the checks of the demonstration and the tests."""

import time
from pathlib import Path

import pyarrow as pa

from spark_apps.delivery.database import SQLITE, Database

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
