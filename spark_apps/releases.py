"""What differs between the releases of Spark, under one name for all of them.

The import fails on a release older than the tested releases. Spark 3.5 has no stateful processors. A class without
content stands in their place, so that pipelines without state can be loaded; `Stateful` is refused.
"""

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.pandas.types import to_arrow_schema

RELEASE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
"""Spark's version as two numbers."""

if RELEASE < (3, 5):
    raise ImportError(
        f"Spark {pyspark.__version__} was not tried with this package; use Spark 3.5 or later, and the same version of pyspark"
    )

STATEFUL = RELEASE >= (4, 0)
"""Whether Spark has stateful processors."""

if TYPE_CHECKING or STATEFUL:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        ListState,
        MapState,
        StatefulProcessor,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )
else:

    class Absent:
        """Stands in place of a class of Spark 4."""

    ClassicDataFrame = DataFrame
    ArrowTableToRowsConversion = LocalDataToArrowConversion = Absent
    ExpiredTimerInfo = TimerValues = Absent
    ListState = MapState = StatefulProcessor = StatefulProcessorHandle = ValueState = Absent

__all__ = [
    "FILE_MANAGER",
    "RELEASE",
    "STATEFUL",
    "ArrowTableToRowsConversion",
    "ClassicDataFrame",
    "ExpiredTimerInfo",
    "ListState",
    "LocalDataToArrowConversion",
    "MapState",
    "StatefulProcessor",
    "StatefulProcessorHandle",
    "TimerValues",
    "ValueState",
    "arrow_schema",
    "arrow_table",
    "frame_of_rows",
    "is_text",
    "struct_of_ddl",
    "valid_text",
]

_STREAMING = "org.apache.spark.sql.execution.streaming"
FILE_MANAGER = f"{_STREAMING}{'.checkpointing' if RELEASE >= (4, 1) else ''}.FileSystemBasedCheckpointFileManager"
_IN_UTC: dict[str, Any] = {"timezone": "UTC", "prefers_large_types": False} if RELEASE >= (4, 2) else {}


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the schema in Arrow, with times in UTC and without large types."""
    return to_arrow_schema(schema, **_IN_UTC)


def arrow_table(rows: DataFrame) -> pa.Table:
    """Return all rows of the frame."""
    if RELEASE >= (4, 0):
        return rows.toArrow()
    batches = rows._collect_as_arrow()  # type: ignore[operator]  # noqa: SLF001 - what `toArrow` of Spark 4 calls
    schema = arrow_schema(rows.schema)
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def frame_of_rows(spark: SparkSession, rows: list[dict[str, Any]], schema: types.StructType) -> DataFrame:
    """Return a frame of these rows. Times of the rows have a time zone."""
    if RELEASE >= (4, 0):
        return spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema(schema)))
    return spark.createDataFrame(rows, schema)


def struct_of_ddl(ddl: str) -> types.StructType:
    """Return the columns of a DDL text; raises `ParseException`."""
    if RELEASE >= (4, 0):
        return cast(types.StructType, types.StructType.fromDDL(ddl))
    return cast(types.StructType, types._parse_datatype_string(ddl))  # noqa: SLF001 - what `fromDDL` of Spark 4 calls


def valid_text(value: Column) -> Column:
    """Return bytes as text. A replacement character stands in place of bytes that are not UTF-8."""
    return F.make_valid_utf8(value.cast("string")) if RELEASE >= (4, 0) else F.decode(value, "UTF-8")


def is_text(value: Column) -> Column:
    """Return whether bytes are UTF-8."""
    if RELEASE >= (4, 0):
        return F.is_valid_utf8(value.cast("string"))
    return F.encode(F.decode(value, "UTF-8"), "UTF-8") == value
