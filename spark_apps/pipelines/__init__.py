"""Pipelines for the consumer application. Each pipeline is a function `build`.

`build(stream, settings)` gets the stream of one topic, with the columns of the assignment, and the application's
settings. It returns a writer; the application adds the checkpoint and starts the query. A writer delivers at least
once. For another delivery, `build` returns `AtMostOnce` or `ExactlyOnce` (`docs/delivery.md`), or `Stateful`
(`docs/state.md`). `AtLeastOnce` is a writer of `foreachBatch` that can also treat bad records.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.dead_letters import OnError
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.spark.progress import writer_field
from spark_apps.state.stateful import Stateful

FILE_SINKS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Returned by a pipeline instead of a writer: rows with a column `partition`, and the rows' sink.

    `each_batch` computes the sink's rows from a batch's rows, on the executors: for example sums by `partition` and
    another column, because the stream itself may not keep state. The result needs a column `partition` too. `on_error`:
    what happens to records that cannot be processed.
    """

    rows: DataFrame
    sink: TransactionalSink
    each_batch: Callable[[DataFrame], DataFrame] | None = None
    on_error: OnError = field(default_factory=OnError)


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Returned by a pipeline instead of a writer: rows with the columns `partition` and `offset`, and a function for
    each batch, as for `foreachBatch`.

    `on_error`: what happens to records that cannot be processed.
    """

    rows: DataFrame
    each_batch: Callable[[DataFrame, int], None]
    on_error: OnError = field(default_factory=OnError)


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """Returned by a pipeline instead of a writer. A batch may be lost, and never comes twice."""

    writer: DataStreamWriter


Output: TypeAlias = DataStreamWriter | AtLeastOnce | AtMostOnce | ExactlyOnce | Stateful
Build: TypeAlias = Callable[[DataFrame, Mapping[str, str]], Output]


def check_writer(writer: DataStreamWriter) -> None:
    """Raise `Refused` for any object but a writer, and for Spark's file sink, which would lose records.

    The file sink drops a batch whose number was written before. Batch numbers begin at 0 with every start of a
    consumer, so the sink would drop the first batches after a restart.
    """
    if not isinstance(writer, DataStreamWriter):
        raise Refused(
            f"the pipeline gave a {type(writer).__name__} in place of a writer; return the DataStreamWriter, which is started for it"
        )
    kind = str(writer_field(writer, "source")).lower()
    if kind in FILE_SINKS:
        raise Refused(
            f"a stream into {kind} files drops batches whose number it has seen, and the numbers begin again with every "
            f"start of a consumer; write them inside foreachBatch: batch.write.mode('append').format('{kind}').save(path)"
        )


def setting(settings: Mapping[str, str], name: str, default: str) -> str:
    """Return a setting of the pipeline; the default if the setting is missing or empty."""
    return settings.get(name) or default


def delivery_of(settings: Mapping[str, str]) -> Delivery:
    """Return the setting `delivery`; raises `Refused` for an unknown word."""
    word = setting(settings, "delivery", Delivery.AT_LEAST_ONCE)
    try:
        return Delivery(word)
    except ValueError:
        raise Refused(f"the setting delivery is '{word}'; give {', '.join(Delivery)}") from None
