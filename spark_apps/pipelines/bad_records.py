"""Finds the records at which a pipeline fails in Spark.

A filter on the batch's rows would not help, because it comes after the pipeline's functions, which fail. So the records
of the batch are read from Kafka again, and the pipeline is built over one half of the records, then the other half.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from coordinator_tasks.core.model import KafkaRecord
from spark_apps.dead_letters import Stage
from spark_apps.dead_letters.halving import Spans, apart, inside, size_of
from spark_apps.dead_letters.recovery import Bad, Records, Recovery, Steps, spans_of
from spark_apps.delivery.database import blames_record
from spark_apps.pipelines import Output
from spark_apps.releases import frame_of_rows

MAX_OFFSETS = 50_000
MAX_BYTES = 64 * 1024 * 1024
"""Limits for reading records again in the driver. A larger batch fails as a whole; later batches retry parts of it."""
Build = Callable[[DataFrame], Output]


@dataclass(frozen=True, slots=True)
class Rerun:
    """A topic's pipeline, to run over chosen records. `build` makes the output of a frame with the stream's schema."""

    topic: str
    build: Build
    schema: T.StructType
    consumer: str = ""
    incarnation: int = 0

    def over(self, spark: SparkSession, records: Records, epochs: Mapping[int, int]) -> Output:
        """Return the pipeline's output for these records. `epochs`: partition → epoch of the holding."""
        rows = [self._row(*place, record, epochs) for place, record in sorted(records.items())]
        return self.build(frame_of_rows(spark, rows, self.schema))

    def _row(self, partition: int, offset: int, record: KafkaRecord, epochs: Mapping[int, int]) -> dict[str, Any]:
        return {
            "key": record.key,
            "value": record.value,
            "topic": self.topic,
            "partition": partition,
            "offset": offset,
            "timestamp": datetime.fromtimestamp(record.timestamp_ms / 1_000, UTC),
            "timestampType": record.timestamp_type,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
            "consumer": self.consumer,
            "incarnation": self.incarnation,
            "epoch": epochs.get(partition, 0),
        }


def found_in(
    recovery: Recovery,
    rerun: Rerun | None,
    steps: Steps,
    spark: SparkSession,
    attempt: Callable[[Output], None],
    error: Exception,
) -> tuple[Bad, Output | None]:
    """Return the bad records of a batch that has failed with `error`, and the output over all other records.

    The output is `None` if there are no other records. Raises `error` if the batch has to be narrowed first.
    """
    spans, bad = spans_of(steps), Bad()
    if size_of(spans) == 1:
        recovery.found(steps, bad, Stage.PIPELINE, spans[0].partition, spans[0].start, error)
        return bad, None
    records = None
    if rerun is not None and size_of(spans) <= MAX_OFFSETS:
        records = recovery.read(spans, MAX_BYTES)
    if rerun is None or records is None:
        raise error
    epochs = {partition: step.token.epoch for partition, step in steps.items()}
    try:
        attempt(rerun.over(spark, {}, epochs))
    except Exception:  # noqa: BLE001 - no record is at fault
        raise error from None

    def attempt_some(some: Spans) -> None:
        is_inside = inside(some)
        part = {place: record for place, record in records.items() if is_inside(*place)}
        if part:
            attempt(rerun.over(spark, part, epochs))

    apart(spans, attempt_some, blames_record, partial(recovery.found, steps, bad, Stage.PIPELINE), fails=True)
    good = {place: record for place, record in records.items() if place not in bad.records}
    return bad, rerun.over(spark, good, epochs)
