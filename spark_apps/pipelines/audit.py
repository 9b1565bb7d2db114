"""Records which consumer processed which record and when, for the checks of the demo.

Records are JSON with `sequence` (a whole number) and `produced_at` (seconds since 1970). Without `produced_at`, the
record's Kafka time is used.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.delivery.audit_sink import AuditSink
from spark_apps.delivery.lineage import Dataset, file_dataset, writes_to
from spark_apps.pipelines import setting
from spark_apps.pipelines.json_records import document
from spark_apps.releases import arrow_table

FOLDER = "build/audit"


def _outputs(settings: Mapping[str, str]) -> list[Dataset]:
    return [file_dataset(setting(settings, "auditFolder", FOLDER))]


@writes_to(_outputs)
def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    """Write one row per processing. Setting `auditFolder`: folder of the SQLite files (default `build/audit`)."""
    sink = AuditSink(Path(setting(settings, "auditFolder", FOLDER)))

    def write(batch: DataFrame, _: int) -> None:
        sink.append(arrow_table(batch))

    return processed(stream).writeStream.foreachBatch(write)


def processed(stream: DataFrame) -> DataFrame:
    """Return the rows for the sink. A record of another form gets no sequence, and Kafka's time."""
    body = document(F.col("value").cast("string"), "sequence STRING, produced_at STRING")
    return stream.withColumn("body", body["document"]).select(
        "topic",
        "partition",
        "offset",
        "consumer",
        "incarnation",
        "epoch",
        F.expr("try_cast(body.sequence AS LONG)").alias("sequence"),
        F.coalesce(
            F.nullif(F.expr("try_cast(body.produced_at AS DOUBLE)"), F.lit(math.nan)), F.col("timestamp").cast("double")
        ).alias("produced_at"),
    )
