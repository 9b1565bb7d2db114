"""The consumer `a` on a cluster: writes down what came with each batch, and from which workers.

In the second batch an executor is killed in the middle of its task; in the third, one task stands still until a
speculative copy of it has ended. Executors reach the brokers by another listener than the driver, with a password.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.wiring import Settings
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.consumer import Consumer, SparkSettings
from spark_apps.spark import session
from tests.integration.spark_submit import JAVA_OPTIONS

PER_BATCH = 4_000
COLUMNS = ("partition", "offset", "incarnation", "epoch")
SCHEMA = "partition int, offset long, incarnation long, epoch long, worker string"
LEAVE_S = 60.0
STILL_S = 60.0
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_worker(number: int, folder: str) -> Step:
    """Adds in which worker's folder the rows of batch `number` were read; mishaps on the way."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            where = Path.cwd().parts[-3]
            worker = pa.array([where] * batch.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, worker], names=[*COLUMNS, "worker"])
            if number == 1:
                kill_once(Path(folder, "killed"))
        if number == 2:
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


def main(master: str, zookeeper: str, cluster: str, servers: str, sasl_servers: str, settings: str, folder: str) -> int:
    builder = SparkSession.builder.master(master).appName("cluster").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.executor.memory", "512m").config("spark.files", settings)
    builder = builder.config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
    builder = builder.config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
    builder = builder.config("spark.speculation.quantile", "0.5").config("spark.speculation.multiplier", "1.1")
    spark = session.configure(builder, idempotent_sink=True).config("spark.speculation", "true").getOrCreate()
    session.ship_packages(spark, Path(folder))

    def build(stream: DataFrame, _: Mapping[str, str]) -> DataStreamWriter:
        Path(folder, "plan").write_text(stream._jdf.queryExecution().toString())
        return stream.writeStream.foreachBatch(write)

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.select(*COLUMNS).mapInArrow(with_worker(number, folder), SCHEMA).toArrow().to_pylist()
        with Path(folder, "batches").open("a") as file:
            file.write(json.dumps({"at": time.time(), "rows": sorted([*row.values()] for row in rows)}) + "\n")

    site = Settings(cluster, zookeeper, {"bootstrap.servers": servers})
    how = SparkSettings(
        {"maxOffsetsPerTrigger": str(PER_BATCH), "kafka.bootstrap.servers": sasl_servers},
        kafka_file=Path(settings).name,  # the copy that Spark ships
        idempotent_sink=True,
        warm_up=False,
    )
    with Consumer(
        spark, ConsumerSettings(site, "a", agent_timing=AgentTiming(close_timeout_s=LEAVE_S)), how
    ) as consumer:
        consumer.pipeline(build=build, default=True)
        code = consumer.run()
    spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
