"""A pipeline whose sink never comes back from a certain record, and one that reads what there is and ends."""

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


def until_now(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    return build(stream, settings).trigger(availableNow=True)
