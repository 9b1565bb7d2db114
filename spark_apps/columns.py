"""The columns of the data source, and Arrow batches made from Kafka messages."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Message
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


def spark_schema(include_headers: bool, include_assignment: bool) -> StructType:
    """The columns of Spark's own Kafka source; with `include_assignment` also under which holding a record was read."""
    fields = [*_KAFKA]
    if include_headers:
        fields.append(_HEADERS)
    if include_assignment:
        fields.extend(_ASSIGNMENT)
    return StructType(fields)


class Columns:
    """Makes record batches; `consumer` and `incarnation` fill the columns of the assignment."""

    def __init__(self, include_headers: bool, include_assignment: bool, consumer: str, incarnation: int) -> None:
        self._headers = include_headers
        self._assignment = (consumer, incarnation) if include_assignment else None
        self._schema = _arrow_schema(include_headers, include_assignment)

    def build(self, topic: str, messages: Sequence[Message], epochs: Mapping[int | None, int]) -> pa.RecordBatch:
        """One batch of all `messages`; `epochs` are the token epochs of their partitions."""
        count = len(messages)
        partitions = [message.partition() for message in messages]
        stamps = [message.timestamp() for message in messages]
        # confluent_kafka counts from 0 = none; Spark as Kafka itself: -1 none, 0 creation, 1 append to the log.
        columns: list[Any] = [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.array(partitions, pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([at * _US_PER_MS for _, at in stamps], self._schema.field("timestamp").type),
            pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
        ]
        if self._headers:
            columns.append(pa.array([_header_rows(one) for one in messages], self._schema.field("headers").type))
        if self._assignment is not None:
            consumer, incarnation = self._assignment
            columns.append(pa.repeat(pa.scalar(consumer, pa.string()), count))
            columns.append(pa.repeat(pa.scalar(incarnation, pa.int64()), count))
            columns.append(pa.array([epochs[partition] for partition in partitions], pa.int64()))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _header_rows(message: Message) -> list[dict[str, Any]] | None:
    headers = message.headers()
    if not headers:
        return None  # as Spark's source: null, not an empty list
    return [{"key": key, "value": value} for key, value in cast("list[tuple[str, bytes | None]]", headers)]


@lru_cache(maxsize=4)
def _arrow_schema(include_headers: bool, include_assignment: bool) -> pa.Schema:
    return to_arrow_schema(spark_schema(include_headers, include_assignment), timezone="UTC")
