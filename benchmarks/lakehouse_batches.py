"""The batches of `benchmarks.lakehouse`, in an environment with one version of Spark; prints the times as JSON.

python -m benchmarks.lakehouse_batches delta|iceberg FOLDER ROUNDS JARS
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkStep, SinkUnavailable, Writer
from spark_apps.lakehouse.delta import DeltaSink
from spark_apps.lakehouse.iceberg import IcebergSink
from spark_apps.lakehouse.table_sink import TableSink

PARTITIONS, CORES = 12, 2
SIZES = (12, 24_000, 240_000)
WARM_UP = 3
SPARKS, DRIVER, FILES = WAYS = ("Spark's writer", "our sink, rows through the driver", "our sink, files by executors")
SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("text", pa.string())])
TOKEN = Token(1, 1, "g")
WRITER = Writer("c", "orders", "id", "a")

Write = Callable[[DataFrame, int, int], None]
"""Appends a frame, by the number of the batch and its rows of each partition."""


def by_sink(sink: TableSink, rows_of: Callable[[DataFrame], pa.Table]) -> Write:
    while True:
        try:
            sink.claim(WRITER, dict.fromkeys(range(PARTITIONS), TOKEN), {})
            break
        except SinkUnavailable:  # the claim goes on
            time.sleep(0.1)

    def write(frame: DataFrame, number: int, each: int) -> None:
        step = SinkStep(TOKEN, number * each, (number + 1) * each)
        assert sink.write(WRITER, dict.fromkeys(range(PARTITIONS), step), rows_of(frame)) == {}

    return write


def delta(folder: Path, name: str) -> dict[str, Write]:
    """Return a writer for each way, into tables of its own."""

    def sparks(frame: DataFrame, number: int, _: int) -> None:
        batch = frame.write.format("delta").mode("append").option("txnAppId", name).option("txnVersion", number)
        batch.save(f"{folder}/sparks-{name}")

    driver, files = (DeltaSink(f"{folder}/{way}-{name}", schema=SCHEMA) for way in ("driver", "files"))
    return {
        SPARKS: sparks,
        DRIVER: by_sink(driver, lambda frame: frame.toArrow()),
        FILES: by_sink(files, lambda frame: files.files(frame).toArrow()),
    }


def iceberg(folder: Path, name: str) -> dict[str, Write]:
    """Return a writer for each way, into tables of its own."""
    SparkSession.getActiveSession().sql(  # type: ignore[union-attr]
        f'CREATE TABLE lake.shop.sparks{name} ("partition" INT, "offset" BIGINT, text STRING) USING iceberg'.replace(
            '"', "`"
        )
    )
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/ours.sqlite", "warehouse": f"file://{folder}"}
    driver, files = (IcebergSink("ours", f"shop.{way}{name}", catalog, schema=SCHEMA) for way in ("driver", "files"))
    return {
        SPARKS: lambda frame, *_: frame.writeTo(f"lake.shop.sparks{name}").append(),
        DRIVER: by_sink(driver, lambda frame: frame.toArrow()),
        FILES: by_sink(files, lambda frame: files.files(frame).toArrow()),
    }


def session(kind: str, folder: Path, jars: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars.packages": jars,
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.databricks.delta.snapshotPartitions": "2",  # the default of 50 tasks is for large tables
    }
    if kind == "delta":
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    else:
        lake = "spark.sql.catalog.lake"
        settings[lake] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{lake}.catalog-impl"] = "org.apache.iceberg.jdbc.JdbcCatalog"
        settings[f"{lake}.uri"] = f"jdbc:sqlite:{folder}/sparks.sqlite"
        settings[f"{lake}.warehouse"] = str(folder)
    builder = SparkSession.builder.master(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frame_of(spark: SparkSession, size: int) -> DataFrame:
    """Return cached rows in as many tasks as cores, as our source gives them; a task has whole partitions."""
    text = F.substring(
        F.concat(*(F.sha2(F.concat(F.col("id"), F.lit(n)).cast("string"), 256) for n in range(3))), 1, 150
    )
    rows, each = spark.range(0, size, 1, CORES), size // PARTITIONS
    frame = rows.select(
        F.floor(F.col("id") / each).cast("int").alias("partition"),
        (F.col("id") % each).alias("offset"),
        text.alias("text"),
    ).cache()
    frame.count()
    return frame


def main(kind: str, folder: str, rounds: str, jars: str) -> None:
    spark = session(kind, Path(folder), jars)
    cells = []
    for size in SIZES:
        rows, each = frame_of(spark, size), size // PARTITIONS
        ways = {"delta": delta, "iceberg": iceberg}[kind](Path(folder), f"b{size}")
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(WARM_UP + int(rounds)):
            frame = rows.withColumn("offset", F.col("offset") + F.lit(number * each))
            for name, write in ways.items():
                began = time.perf_counter()
                write(frame, number, each)
                times[name].append(round((time.perf_counter() - began) * 1_000, 1))
        rows.unpersist()
        cells.append({"rows": size, "ms": {name: found[WARM_UP:] for name, found in times.items()}})
    spark.stop()
    print(json.dumps(cells))


if __name__ == "__main__":
    main(*sys.argv[1:])
