"""Pipelines that a consumer application can be told to run, each a function `build`.

`build(stream, settings)` gets the stream of one topic, with the columns of the assignment, and the application's
settings, and returns the writer; the application adds the checkpoint and starts it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused

FILE_SINKS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})

Build: TypeAlias = Callable[[DataFrame, Mapping[str, str]], DataStreamWriter]


def check_writer(writer: DataStreamWriter) -> None:
    """Raise `Refused` for a writer that would lose records: one into files by Spark's own file sink.

    That sink drops a batch whose number it has seen. Ours count from 0 in every life of a consumer, so the first batches
    after a restart would vanish.
    """
    java: Any = writer._jwrite  # noqa: SLF001 - its only place
    field = java.getClass().getDeclaredField("source")  # it has no getter
    field.setAccessible(True)
    kind = str(field.get(java)).lower()
    if kind in FILE_SINKS:
        raise Refused(
            f"a stream into {kind} files drops batches whose number it has seen, and the numbers begin again with every "
            f"start of a consumer; write them inside foreachBatch: batch.write.mode('append').format('{kind}').save(path)"
        )


def setting(settings: Mapping[str, str], name: str, default: str) -> str:
    """A setting of the pipeline, or its default when it is missing or empty."""
    return settings.get(name) or default
