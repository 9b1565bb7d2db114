"""Records every processing of a record in SQLite files, for checks by the demonstration and the tests."""

import time
from pathlib import Path

import pyarrow as pa

from coordinator_tasks.fleet_values import SQLITE
from spark_apps.delivery.database import borrowed

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

_TYPES = ", ".join(f'"{name}" {kind}' for name, kind in AUDIT_COLUMNS)
_CREATE_AUDIT = f"CREATE TABLE IF NOT EXISTS audit ({_TYPES})"
_ADD_AUDIT = f"INSERT INTO audit VALUES ({', '.join('?' for _ in AUDIT_COLUMNS)})"  # noqa: S608 (marks only)


class AuditSink:
    """An append-only list of all processings, including duplicates.

    Each consumer's incarnation writes its own SQLite file in `folder`, so writers never wait for each other, and a
    killed writer leaves only whole batches. `processed_at`: time of the batch's write, in seconds since 1970.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, rows: pa.Table) -> None:
        """Write one batch, durable on return. `rows` has the columns `AUDIT_COLUMNS` without the last."""
        if rows.num_rows == 0:
            return
        file = self._folder / f"{rows['consumer'][0]}-{rows['incarnation'][0]}.sqlite"
        values = [rows[name].to_pylist() for name, _ in AUDIT_COLUMNS[:-1]]
        with borrowed(f"{SQLITE}{file}") as database, database.transaction() as cursor:
            cursor.execute(_CREATE_AUDIT)
            now = time.time()
            cursor.executemany(_ADD_AUDIT, zip(*values, [now] * rows.num_rows, strict=True))
