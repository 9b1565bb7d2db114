"""Starts a query that does not wait for its checkpoint between batches.

Spark writes two files for each batch, and asks the system to start `chmod` for each of them and for its checksum: 30 to
50 ms of a small batch. With its asynchronous progress tracking it keeps the progress in memory and writes it now and then.
That is enough here: no checkpoint outlives its process, and every start begins at the committed position.
"""

import logging
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.spark.stateless import keeps_state

SWITCH = "asyncProgressTrackingEnabled"
ANY_SINK = "_asyncProgressTrackingOverrideSinkSupportCheck"
"""Spark offers it for sinks that may see a batch again after a restart; ours always may."""
INTERVAL = "asyncProgressTrackingCheckpointIntervalMs"
INTERVAL_MS = 60_000

log = logging.getLogger(__name__)


def start(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query; its progress is kept in memory where Spark can do that and the pipeline has not said otherwise."""
    if not _fits(writer):
        return writer.start()
    try:
        return writer.options(**{SWITCH: "true", ANY_SINK: "true", INTERVAL: str(INTERVAL_MS)}).start()
    except IllegalArgumentException as error:
        log.warning("batches wait for their checkpoint, which takes longer: %s", str(error).splitlines()[0])
        return writer.option(SWITCH, "false").start()


def _fits(writer: DataStreamWriter) -> bool:
    """Not with state, which lives in the checkpoint, nor with a trigger that ends the query."""
    trigger = str(writer_field(writer, "trigger").getClass().getSimpleName())
    chosen = writer_field(writer, "extraOptions").contains(SWITCH)
    return trigger == "ProcessingTimeTrigger" and not chosen and not keeps_state(writer)


def writer_field(writer: DataStreamWriter, name: str) -> Any:
    """What a writer was told, which it has no getter for."""
    java: Any = writer._jwrite  # noqa: SLF001 - its only place
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
