"""Reads what the audit sink wrote."""

import sqlite3
from pathlib import Path
from typing import Any

from spark_apps.delivery.audit_sink import AUDIT_COLUMNS
from spark_apps.delivery.dialects.sqlite import BUSY_TIMEOUT_S


def read_audit(folder: Path) -> list[dict[str, Any]]:
    """All rows of an audit folder, in the order of each writer. May run while writers write."""
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
