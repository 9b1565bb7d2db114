"""Starts a query that does not wait for its checkpoint between batches.

Spark writes two files for each batch, and runs `chmod` for each file and its checksum: 30 to 50 ms of a small batch.
With asynchronous progress tracking, Spark keeps the progress in memory and writes it at intervals. This is enough here:
no checkpoint outlives its process, and every start begins at the committed position.
"""

import logging
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.spark.stateless import keeps_state

SWITCH = "asyncProgressTrackingEnabled"
ANY_SINK = "_asyncProgressTrackingOverrideSinkSupportCheck"
"""Spark offers this for sinks that may get a batch again after a restart, as all of ours may."""
INTERVAL = "asyncProgressTrackingCheckpointIntervalMs"
INTERVAL_MS = 60_000

log = logging.getLogger(__name__)


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query; keep its progress in memory if Spark supports this and the pipeline allows it."""
    if not _fits(writer):
        return writer.start()
    try:
        return writer.options(**{SWITCH: "true", ANY_SINK: "true", INTERVAL: str(INTERVAL_MS)}).start()
    except IllegalArgumentException as error:
        log.warning("batches wait for their checkpoint, which makes them slower: %s", str(error).splitlines()[0])
        return writer.option(SWITCH, "false").start()


def _fits(writer: DataStreamWriter) -> bool:
    """Return whether asynchronous progress fits.

    Not for state, kept in the checkpoint, nor for a trigger that ends the query.
    """
    trigger = str(writer_field(writer, "trigger").getClass().getSimpleName())
    chosen = writer_field(writer, "extraOptions").contains(SWITCH)
    return trigger == "ProcessingTimeTrigger" and not chosen and not keeps_state(writer)


def writer_field(writer: DataStreamWriter, name: str) -> Any:
    """The options of a writer, which has no getter for them."""
    java: Any = writer._jwrite  # noqa: SLF001 - its only place
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
