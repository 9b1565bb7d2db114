"""A pipeline whose sink never comes back from a certain record."""

import threading
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

HANG = b"hang"


def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    def write(batch: DataFrame, _: int) -> None:
        if any(row["value"] == HANG for row in batch.select("value").collect()):
            threading.Event().wait()

    return stream.writeStream.foreachBatch(write)
