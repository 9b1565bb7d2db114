"""Arrow batches of the source's columns. No broker, no Spark."""

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_apps.records.columns import Columns, Records, number_column, records_of

COLD = """
import sys
import numpy as np
import pyarrow as pa
from spark_apps.records.columns import Columns, Records
from spark_apps.records.fast_fetch import _copied
from spark_apps.records.reader import read

numbers, small = np.zeros(1, np.int64), np.zeros(1, np.int32)
text = np.frombuffer(b"x", np.int8)
values = _copied(np.array([text.ctypes.data]), np.ones(1, np.int64))
Columns(False, True, "a", 1).build("orders", Records(values, values, small, numbers, numbers, small), numbers)
print("pandas" in sys.modules)
"""


def test_each_column_has_its_value() -> None:
    words = pa.array([b"k", None], pa.binary())
    records = Records(
        words,
        words,
        np.array([3, 4], np.int32),
        np.array([70, 2**40], np.int64),
        np.array([1_600_000_000_123, -1], np.int64),
        np.array([1, 2], np.int32),
    )
    batch = Columns(False, True, "consumer-ä", 2**40).build("orders", records, np.array([5, 6], np.int64))
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert [row.pop("timestamp").timestamp() for row in rows] == [1_600_000_000.123, -0.001]
    same = {"topic": "orders", "consumer": "consumer-ä", "incarnation": 2**40}
    assert rows == [
        {"key": b"k", "value": b"k", "partition": 3, "offset": 70, "timestampType": 0, "epoch": 5, **same},
        {"key": None, "value": None, "partition": 4, "offset": 2**40, "timestampType": 1, "epoch": 6, **same},
    ]


def test_a_time_that_python_cannot_hold_is_null_and_its_record_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A producer may send any number; nanoseconds are a known mistake. One such record must not end its batch."""
    nanoseconds, microseconds = 1_764_000_000_000_000_000, 1_764_000_000_000_000
    times = np.array([nanoseconds, microseconds, 2**63 - 1, -(2**63), -1, 0, 1_764_000_000_000], np.int64)
    offsets, nothing = np.arange(40, 40 + times.size), pa.nulls(times.size, pa.binary())
    small = np.ones(times.size, np.int32)
    records = Records(nothing, nothing, small, offsets, times, small)
    batch = Columns(False, False, "", 0).build("orders", records, times)
    batch.validate(full=True)
    said = [row["timestamp"] and row["timestamp"].timestamp() for row in batch.to_pylist()]
    assert said == [None, None, None, None, -0.001, 0.0, 1_764_000_000.0]
    assert "the times of 4 records" in caplog.text
    assert f"the first one is partition 1, offset 40: {nanoseconds}" in caplog.text


def test_numbers_are_null_where_they_are_not_there() -> None:
    there = np.array([True, False] * 9)
    column = number_column(np.arange(18), there)
    column.validate(full=True)
    assert column.to_pylist() == [number if number % 2 == 0 else None for number in range(18)]


def message(offset: int, headers: Callable[[], object]) -> Any:
    return SimpleNamespace(
        partition=lambda: 0,
        offset=lambda: offset,
        timestamp=lambda: (1, 5),
        key=lambda: None,
        value=lambda: b"value",
        headers=headers,
    )


def test_headers_that_consume_cannot_read_are_null_and_stop_no_reading(caplog: pytest.LogCaptureFixture) -> None:
    """A name that is no UTF-8, as any producer may send one."""

    def unreadable() -> object:
        raise SystemError("returned a result with an exception set") from UnicodeDecodeError(
            "utf-8", b"caf\xe9", 3, 4, ""
        )

    messages = [message(7, lambda: [("name", b"text")]), message(8, unreadable), message(9, unreadable)]
    records = records_of(cast(Any, messages), include_headers=True)
    assert records.headers is not None
    assert records.headers.to_pylist() == [[{"key": "name", "value": b"text"}], None, None]
    assert records.offsets.tolist() == [7, 8, 9]
    assert [one.getMessage() for one in caplog.records] == [
        "consume() gives no headers of 2 records, because a name of theirs is no UTF-8: they are null; the first one is partition 0, "
        "offset 8"
    ]


def test_a_new_worker_builds_its_first_batch_without_pandas() -> None:
    """Its import takes up to a second, for which the first partitions of a consumer would stand still."""
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
