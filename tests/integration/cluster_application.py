"""A driver for the cluster test: reads a topic once through and writes down what came, and from which workers.

In the second batch an executor is killed in the middle of its task; in the third, one task stands still until a
speculative copy of it has ended.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from spark_apps import session, source
from spark_apps.link import LinkServer
from tests.integration.fake_planner import FakePlanner
from tests.integration.spark_submit import JAVA_OPTIONS

PARTITIONS = 4
RECORDS = 12_000
BATCHES = 3
LIMIT_S = 150.0
STILL_S = 60.0
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_worker(number: int, folder: str) -> Step:
    """Adds in which worker's folder the rows of batch `number` were read; mishaps on the way."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            where = Path.cwd().parts[-3]
            yield pa.RecordBatch.from_arrays(
                [batch["partition"], batch["offset"], pa.array([where] * batch.num_rows, pa.string())],
                names=["partition", "offset", "worker"],
            )
            if number == 1:
                kill_once(Path(folder, "killed"))
        if number == BATCHES - 1:
            stand_still(Path(folder, "copied"))

    return step


def kill_once(mark: Path) -> None:
    """Kill -9 of this task's executor, the parent of the daemon that is our parent; the first to come here does it."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)


def stand_still(mark: Path) -> None:
    """The first attempt of the first task waits until a further one has read everything."""
    context = TaskContext.get()
    if context is None or context.partitionId() != 0:
        return
    if context.attemptNumber() > 0:
        mark.touch()
    until = time.monotonic() + STILL_S
    while not mark.exists() and time.monotonic() < until:
        time.sleep(0.05)


def main(master: str, servers: str, sasl_servers: str, topic: str, settings: str, folder: str) -> None:
    builder = SparkSession.builder.master(master).appName("cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "512m").config("spark.files", settings)
    builder = builder.config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
    builder = builder.config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
    builder = builder.config("spark.speculation.quantile", "0.5").config("spark.speculation.multiplier", "1.1")
    spark = session.configure(builder, idempotent_sink=True).config("spark.speculation", "true").getOrCreate()
    session.ship_packages(spark, Path(folder))
    server = LinkServer()
    planner = FakePlanner(topic, servers)
    planner.settings = {"bootstrap.servers": sasl_servers}
    server.serve(topic, planner)
    name = Path(settings).name  # the copy that Spark ships
    source.register(spark, source.AgentAddress(str(server.path), "consumer-a", 1, settings_file=name))
    rows: list[tuple[int, int, str]] = []

    def collect(batch: DataFrame, number: int) -> None:
        table = batch.mapInArrow(with_worker(number, folder), "partition int, offset long, worker string").toArrow()
        rows.extend(zip(*[column.to_pylist() for column in table.columns], strict=True))

    reader = spark.readStream.format("assigned-kafka").option("subscribe", topic)
    stream = reader.option("maxOffsetsPerTrigger", str(RECORDS // BATCHES)).load()
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
        "workers": sorted({worker for _, _, worker in rows}),
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
