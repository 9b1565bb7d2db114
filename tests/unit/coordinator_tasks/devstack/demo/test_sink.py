"""What is read of the audit's files."""

from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_tasks.devstack.demo import sink
from spark_apps.delivery.audit_sink import AUDIT_COLUMNS, AuditSink

VALUES = ("orders", 3, 7, "a", 1, 2, 7, 1000.0)


@pytest.mark.parametrize("name", ["plain", "c#", "50%41", "why?"])
def test_the_rows_are_found_whatever_the_folders_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    batch = {column: [value] for (column, _), value in zip(AUDIT_COLUMNS, VALUES, strict=False)}
    AuditSink(folder).append(pa.table(batch))
    (row,) = sink.rows(folder)
    assert (row.consumer, row.partition, row.offset, row.sequence) == ("a", 3, 7, 7)
    assert (sink.processed(folder), sink.last_offsets(folder), sink.newest(folder)) == ({"a": 1}, {3: 7}, {3: 1000.0})
