"""The columns of the data source, and Arrow batches made from Kafka messages."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_KAFKA = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_HEADERS = StructField("headers", ArrayType(_HEADER))
_ASSIGNMENT = (
    StructField("consumer", StringType()),
    StructField("incarnation", LongType()),
    StructField("epoch", LongType()),
)
_US_PER_MS = 1000
_DAY_MS = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000 + _DAY_MS, 253_402_300_799_999 - _DAY_MS
"""Python's first and last `datetime`, less a day for time zones.

A producer may send any number as a time, such as nanoseconds.
"""
_HEADERS_OF = methodcaller("headers")
"""Not `message.headers()`: see `coordinator_tasks.adapters.kafka_samples`."""

log = logging.getLogger(__name__)


def spark_schema(include_headers: bool, include_assignment: bool) -> StructType:
    """The columns of Spark's own Kafka source; with `include_assignment` also the holding under which a record was
    read.
    """
    fields = [*_KAFKA]
    if include_headers:
        fields.append(_HEADERS)
    if include_assignment:
        fields.extend(_ASSIGNMENT)
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class Records:
    """Kafka's part of the columns, one element for each record.

    `times_ms`: since 1970, or -1. `kinds`: the meaning of the time in librdkafka's numbers: 0 none, 1 creation, 2
    append to the log. `headers`: None unless wanted.
    """

    keys: pa.Array
    values: pa.Array
    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    kinds: NDArray[np.int32]
    headers: pa.Array | None = None


class Columns:
    """Makes record batches; `consumer` and `incarnation` fill the columns of the assignment."""

    def __init__(self, include_headers: bool, include_assignment: bool, consumer: str, incarnation: int) -> None:
        self._assignment = (consumer, incarnation) if include_assignment else None
        self.schema = _arrow_schema(include_headers, include_assignment)

    def build(self, topic: str, records: Records, epochs: NDArray[np.int64]) -> pa.RecordBatch:
        """Return one batch of all `records`; `epochs` are the records' token epochs."""
        count = len(records.offsets)
        columns: list[Any] = [
            records.keys,
            records.values,
            _repeated(topic, count),
            number_column(records.partitions),
            number_column(records.offsets),
            _times(topic, records).view(self.schema.field("timestamp").type),
            number_column(
                records.kinds - 1
            ),  # the numbers of Spark and Kafka: -1 none, 0 creation, 1 append to the log
        ]
        if records.headers is not None:
            columns.append(records.headers)
        if self._assignment is not None:
            consumer, incarnation = self._assignment
            columns.append(_repeated(consumer, count))
            columns.append(number_column(np.full(count, incarnation, np.int64)))
            columns.append(number_column(epochs))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def number_column(numbers: NDArray[Any], there: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column in the memory of contiguous `numbers`; null where not `there`.

    `pa.array` and `pa.scalar` would import pandas: a new worker needs a second for it, and the partition waits.
    """
    validity = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, numbers.size, [validity, pa.py_buffer(numbers)])


def _times(topic: str, records: Records) -> pa.Array:
    """Return the times in microseconds.

    Null for a time beyond `datetime`, with a warning that names the first such record.
    """
    times = records.times_ms
    there = (times >= _FIRST_MS) & (times <= _LAST_MS)
    if there.all():
        return number_column(times * _US_PER_MS)
    strange = np.flatnonzero(~there)
    first = strange[0]
    log.warning(
        "topic %s: the times of %d records are no milliseconds since 1970 of the years 1 to 9999, so their timestamps are null; the "
        "first one is partition %d, offset %d: %d",
        topic,
        len(strange),
        records.partitions[first],
        records.offsets[first],
        times[first],
    )
    return number_column(np.where(there, times, 0) * _US_PER_MS, there)


def _repeated(text: str, count: int) -> pa.Array:
    """A column of `count` times the same text; at most 2 GiB in all."""
    data = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(data)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def records_of(messages: Sequence[Message], include_headers: bool) -> Records:
    """The columns of confluent-kafka's messages."""
    stamps = [message.timestamp() for message in messages]
    return Records(
        keys=pa.array([message.key() for message in messages], pa.binary()),
        values=pa.array([message.value() for message in messages], pa.binary()),
        partitions=np.array([message.partition() for message in messages], np.int32),
        offsets=np.array([message.offset() for message in messages], np.int64),
        times_ms=np.array([at for _, at in stamps], np.int64),
        kinds=np.array([kind for kind, _ in stamps], np.int32),
        headers=header_column(_headers_of(messages)) if include_headers else None,
    )


def _headers_of(messages: Sequence[Message]) -> "list[Headers | None]":
    found: list[Headers | None] = []
    unreadable: list[Message] = []
    for message in messages:
        try:
            found.append(_HEADERS_OF(message))
        except (SystemError, UnicodeDecodeError):
            found.append(None)
            unreadable.append(message)
    if unreadable:
        log.warning(
            "consume() gives no headers of %d records, because a name of theirs is no UTF-8: they are null; the first one is "
            "partition %s, offset %s",
            len(unreadable),
            unreadable[0].partition(),
            unreadable[0].offset(),
        )
    return found


Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


def header_column(headers: Sequence[Headers | None]) -> pa.Array:
    """The column of all records' headers."""
    rows = [_header_rows(one) for one in headers]
    return pa.array(rows, _arrow_schema(True, False).field("headers").type)


def _header_rows(headers: Headers | None) -> list[dict[str, Any]] | None:
    if not headers:
        return None  # as Spark's source: null, not an empty list
    return [{"key": key, "value": value} for key, value in headers]


@lru_cache(maxsize=4)
def _arrow_schema(include_headers: bool, include_assignment: bool) -> pa.Schema:
    return to_arrow_schema(spark_schema(include_headers, include_assignment), timezone="UTC")
