"""A pipeline that dies of a certain record."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

POISON = b"poison"


def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    def write(batch: DataFrame, _: int) -> None:
        if any(row["value"] == POISON for row in batch.select("value").collect()):
            raise ValueError("this sink does not bear poison")

    return stream.writeStream.foreachBatch(write)
