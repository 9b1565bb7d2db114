"""An application that reads the same topics by Spark's own Kafka source and by ours, and writes down what came.

Its arguments: the brokers, what the topics' names begin with, a folder, and the connector's jars, separated by commas.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.records.agent_socket import AgentServer, Reading
from spark_apps.spark import session, source
from tests.integration.both_options import CASES, topic_of
from tests.integration.sole_owner import begun, sole_owner
from tests.integration.spark_submit import JAVA_OPTIONS

LIMIT_S = 120.0


class Both:
    """One Spark with both formats, and agents of ours without ZooKeeper, each of which owns a whole topic."""

    def __init__(self, servers: str, folder: Path, jars: str) -> None:
        builder = SparkSession.builder.master("local[2]").appName("both").config("spark.ui.enabled", "false")
        builder = builder.config("spark.jars", jars).config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        self.spark = session.configure(builder).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.servers, self.folder = servers, folder
        self.rows: dict[str, list[pa.Table]] = {}
        self.server = AgentServer(Reading("a", 1))
        source.register(self.spark, str(self.server.path))

    def run(self, stream: DataFrame, name: str) -> StreamingQuery:
        def collect(batch: DataFrame, number: int) -> None:
            table = batch.toArrow()
            numbers = pa.repeat(pa.scalar(number, pa.int64()), table.num_rows)
            self.rows.setdefault(name, []).append(table.append_column("batch", numbers))

        writer = stream.writeStream.foreachBatch(collect).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder / f"checkpoint-{time.monotonic_ns()}")).start()

    def by_spark(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("subscribe", topic)
        return reader.option("kafka.bootstrap.servers", self.servers).options(**options).load()

    def by_us(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        return self.spark.readStream.format("assigned-kafka").option("subscribe", topic).options(**options).load()

    @contextmanager
    def agent(self, topic: str) -> Iterator[TopicRunner]:
        runner = sole_owner(self.servers, topic, f"{topic}-options")
        self.server.serve(topic, runner)
        yield runner
        self.server.withdraw(topic)
        runner.close()

    def start(self, runner: TopicRunner, stream: DataFrame, name: str) -> StreamingQuery:
        return begun(runner, lambda: self.run(stream, name))

    def with_options(self, prefix: str) -> None:
        """All at once: a small query mostly waits."""
        with ExitStack() as ending:
            queries = []
            for case, one in CASES.items():
                topic = topic_of(prefix, case)
                runner, given = ending.enter_context(self.agent(topic)), one.given(topic)
                queries.append(self.run(with_task(self.by_spark(topic, given)), f"spark-{case}"))
                queries.append(self.start(runner, with_task(self.by_us(topic, given)), f"ours-{case}"))
            for query in queries:
                assert query.awaitTermination(LIMIT_S), query.lastProgress

    def write(self) -> None:
        for name, tables in self.rows.items():
            pq.write_table(pa.concat_tables(tables), self.folder / f"{name}.parquet")
        options = {"includeHeaders": "true"}
        for name, stream in (("spark", self.by_spark("t", options)), ("ours", self.by_us("t", options))):
            (self.folder / f"{name}.schema").write_text(stream.schema.json())


def with_task(stream: DataFrame) -> DataFrame:
    """Adds which task of its batch has read a record."""
    return stream.withColumn("task", F.spark_partition_id())


def main(servers: str, prefix: str, folder: str, jars: str) -> None:
    both = Both(servers, Path(folder), jars)
    both.with_options(prefix)
    both.write()
    both.server.close()
    both.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
