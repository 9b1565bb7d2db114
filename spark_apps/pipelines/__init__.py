"""Pipelines that a consumer application can be told to run, each a function `build`.

`build(stream, settings)` gets the stream of one topic, with the columns of the assignment, and the application's
settings, and returns the writer; the application adds the checkpoint and starts it. That is at least once; for the other
ways it returns `AtMostOnce` or `ExactlyOnce` (`docs/delivery.md`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.spark.progress import writer_field

FILE_SINKS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """What a pipeline returns in place of a writer: rows with a column `partition`, and the sink that takes them."""

    rows: DataFrame
    sink: TransactionalSink


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """What a pipeline returns in place of a writer whose batches may be lost and never come twice."""

    writer: DataStreamWriter


Output: TypeAlias = DataStreamWriter | AtMostOnce | ExactlyOnce
Build: TypeAlias = Callable[[DataFrame, Mapping[str, str]], Output]


def check_writer(writer: DataStreamWriter) -> None:
    """Raise `Refused` for a writer that would lose records: one into files by Spark's own file sink.

    That sink drops a batch whose number it has seen. Ours count from 0 in every life of a consumer, so the first batches
    after a restart would vanish.
    """
    kind = str(writer_field(writer, "source")).lower()
    if kind in FILE_SINKS:
        raise Refused(
            f"a stream into {kind} files drops batches whose number it has seen, and the numbers begin again with every "
            f"start of a consumer; write them inside foreachBatch: batch.write.mode('append').format('{kind}').save(path)"
        )


def setting(settings: Mapping[str, str], name: str, default: str) -> str:
    """A setting of the pipeline, or its default when it is missing or empty."""
    return settings.get(name) or default


def delivery_of(settings: Mapping[str, str]) -> Delivery:
    """The setting `delivery`; raises `Refused` for a word that is none."""
    word = setting(settings, "delivery", Delivery.AT_LEAST_ONCE)
    try:
        return Delivery(word)
    except ValueError:
        raise Refused(f"the setting delivery is '{word}'; give {', '.join(Delivery)}") from None
