"""A pipeline that dies of a certain record, and until then writes down what it has read.

While the file `closed` is there, a batch waits before it is read, and names itself in the file `waiting`.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.delivery.audit_sink import AuditSink

POISON = b"poison"


def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    folder = Path(settings["auditFolder"])
    sink = AuditSink(folder)

    def write(batch: DataFrame, number: int) -> None:
        while (folder / "closed").exists():
            (folder / "waiting").write_text(str(number))
            time.sleep(0.05)
        rows = batch.withColumns({"sequence": F.lit(0), "produced_at": F.lit(0.0)}).toArrow()
        if POISON in rows["value"].to_pylist():
            raise ValueError("this sink does not bear poison")
        sink.append(rows)

    return stream.writeStream.foreachBatch(write)
