"""A driver for the cluster test: reads a topic once through and writes down what came, and from which processes."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_apps import session, source
from spark_apps.link import LinkServer
from tests.integration.fake_planner import FakePlanner
from tests.integration.spark_submit import JAVA_OPTIONS

PARTITIONS = 4
RECORDS = 12_000
LIMIT_S = 90.0


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds which executor's folder the rows were read in."""
    for batch in batches:
        where = Path.cwd().name + "@" + Path.cwd().parts[-3]
        yield pa.RecordBatch.from_arrays(
            [batch["partition"], batch["offset"], pa.array([where] * batch.num_rows, pa.string())],
            names=["partition", "offset", "executor"],
        )


def main(master: str, servers: str, sasl_servers: str, topic: str, settings: str, folder: str) -> None:
    builder = SparkSession.builder.master(master).appName("cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "512m").config("spark.files", settings)
    builder = builder.config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
    builder = builder.config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
    spark = session.configure(builder).getOrCreate()
    session.ship_packages(spark, Path(folder))
    server = LinkServer()
    planner = FakePlanner(topic, servers)
    planner.settings = {"bootstrap.servers": sasl_servers}
    server.serve(topic, planner)
    name = Path(settings).name  # the copy that Spark ships
    source.register(spark, source.AgentAddress(str(server.path), "consumer-a", 1, settings_file=name))
    rows: list[tuple[int, int, str]] = []

    def collect(batch: DataFrame, _: int) -> None:
        table = batch.mapInArrow(with_executor, "partition int, offset long, executor string").toArrow()
        rows.extend(zip(*[column.to_pylist() for column in table.columns], strict=True))

    stream = spark.readStream.format("assigned-kafka").option("subscribe", topic).load()
    writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", f"{folder}/checkpoint")
    for partition in range(PARTITIONS):
        planner.give(partition, 0, 1)
    query = writer.start()
    deadline = time.monotonic() + LIMIT_S
    while len(rows) < RECORDS and query.isActive and time.monotonic() < deadline:
        time.sleep(0.1)
    plan = stream._jdf.queryExecution().toString()
    result = {
        "rows": len(rows),
        "distinct": len({(partition, offset) for partition, offset, _ in rows}),
        "executors": sorted({executor for _, _, executor in rows}),
        "plan": plan,
        "pid": os.getpid(),
    }
    Path(folder, "result.json").write_text(json.dumps(result))
    failure = query.exception()
    query.stop()
    server.close()
    spark.stop()
    if failure is not None:
        raise failure


if __name__ == "__main__":
    main(*sys.argv[1:])
