"""A pipeline whose sink never comes back from a certain record, and others by what is particular to their queries."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

HANG = b"hang"
TRIGGER_S = 2


def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    def write(batch: DataFrame, _: int) -> None:
        if any(row["value"] == HANG for row in batch.select("value").collect()):
            threading.Event().wait()

    return stream.writeStream.foreachBatch(write)


def until_now(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    return build(stream, settings).trigger(availableNow=True)


def now_and_then(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    """A line for each batch into the file `batches`: when, and what it brought."""

    def write(batch: DataFrame, _: int) -> None:
        rows = [(row["partition"], row["offset"]) for row in batch.select("partition", "offset").collect()]
        with Path(settings["batches"]).open("a") as file:
            file.write(json.dumps([time.time(), rows]) + "\n")

    return stream.writeStream.foreachBatch(write).trigger(processingTime=f"{TRIGGER_S} seconds")


def counting(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    return stream.groupBy("key").count().writeStream.outputMode("update").foreachBatch(lambda *_: None)
