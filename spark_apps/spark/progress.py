"""Starts a query that does not wait for its checkpoint between batches.

Spark writes two files for each batch, and runs `chmod` for each file and its checksum, which takes 30 to 50 ms. With
asynchronous progress tracking, Spark keeps the progress in memory and writes it at intervals. No more is needed here:
no checkpoint outlives its process, and every start begins at the committed position.
"""

import logging
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.spark.plans import frame_of
from spark_apps.spark.stateless import keeps_state

SWITCH = "asyncProgressTrackingEnabled"
ANY_SINK = "_asyncProgressTrackingOverrideSinkSupportCheck"
"""Spark's option for sinks that may get a batch again after a restart, as all sinks here may."""
INTERVAL = "asyncProgressTrackingCheckpointIntervalMs"
INTERVAL_MS = 60_000

log = logging.getLogger(__name__)


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query. Spark keeps the progress in memory if Spark and the pipeline allow it."""
    if not _fits(writer):
        return writer.start()
    try:
        return writer.options(**{SWITCH: "true", ANY_SINK: "true", INTERVAL: str(INTERVAL_MS)}).start()
    except IllegalArgumentException as error:
        log.warning("batches wait for their checkpoint, which makes them slower: %s", str(error).splitlines()[0])
        return writer.option(SWITCH, "false").start()


def _fits(writer: DataStreamWriter) -> bool:
    """Return whether asynchronous progress tracking fits the query.

    It does not fit a query with state, which is kept in the checkpoint, nor a trigger that ends the query.
    """
    trigger = str(writer_field(writer, "trigger").getClass().getSimpleName())
    chosen = writer_field(writer, "extraOptions").contains(SWITCH)
    return trigger == "ProcessingTimeTrigger" and not chosen and not keeps_state(frame_of(writer))


def writer_field(writer: DataStreamWriter, name: str) -> Any:
    """Return a private field of a writer, which has no getter."""
    java: Any = writer._jwrite  # noqa: SLF001 - its only place
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
