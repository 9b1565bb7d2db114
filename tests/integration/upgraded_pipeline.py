"""A pipeline that writes down every processing, at least once, into files.

Settings: `auditFolder`, and `gate`: while that file is there, a batch waits before its sink.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.delivery.audit_sink import AUDIT_COLUMNS, AuditSink

LOOK_S = 0.05


def at_least_once(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    sink, gate = AuditSink(Path(settings["auditFolder"])), Path(settings["gate"])

    def write(batch: DataFrame, _: int) -> None:
        while gate.exists():
            time.sleep(LOOK_S)
        sink.append(batch.toArrow())

    # The columns of the audit, without the time: a record's value is its number, its time that of its producer.
    number = F.col("value").cast("string").cast("long").alias("sequence")
    columns = [name for name, _ in AUDIT_COLUMNS][:6]
    rows = stream.select(*columns, number, F.col("timestamp").cast("double").alias("produced_at"))
    return rows.writeStream.foreachBatch(write)
