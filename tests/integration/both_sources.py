"""An application that reads the same topics by Spark's own Kafka source and by ours, and writes down what came.

Its arguments: the brokers, what the topics' names begin with, a folder, and the connector's jars, separated by commas.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.ports import GroupOffsets
from spark_apps import session, source
from spark_apps.agent.runner import TopicRunner
from spark_apps.agent.settings import Identity
from spark_apps.consumer import SLOW_START, START_ATTEMPTS
from spark_apps.link import LinkServer
from tests.integration.spark_submit import JAVA_OPTIONS

MATTER = {"read_uncommitted": "", "read_committed": "transactions"}
"""What the names of the topics end with for which a level matters."""
LEVELS = tuple(MATTER)
LIMIT_S = 120.0
LIMIT_PER_BATCH = "700"
"""So that batches begin and end in the middle of transactions and of what compaction left."""


class Both:
    """One Spark with both formats, and one agent of ours without ZooKeeper: it owns everything."""

    def __init__(self, servers: str, folder: Path, jars: str) -> None:
        builder = SparkSession.builder.master("local[2]").appName("both").config("spark.ui.enabled", "false")
        builder = builder.config("spark.jars", jars).config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        self.spark = session.configure(builder).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.servers, self.folder = servers, folder
        self.rows: dict[str, list[pa.Table]] = {}
        self.server = LinkServer()
        self.admin = ConfluentKafkaAdmin({"bootstrap.servers": servers})
        source.register(self.spark, source.AgentAddress(str(self.server.path), "a", 1))

    def run(self, stream: DataFrame, name: str) -> StreamingQuery:
        def collect(batch: DataFrame, _: int) -> None:
            self.rows.setdefault(name, []).append(batch.toArrow())

        writer = stream.writeStream.foreachBatch(collect).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder / f"checkpoint-{time.monotonic_ns()}")).start()

    def by_spark(self, level: str, topics: Sequence[str]) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("subscribe", ",".join(topics))
        reader = reader.option("kafka.bootstrap.servers", self.servers).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", LIMIT_PER_BATCH)
        return reader.option("kafka.isolation.level", level).load()

    def by_us(self, topic: str, level: str) -> DataFrame:
        reader = self.spark.readStream.format("assigned-kafka").option("subscribe", topic)
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", LIMIT_PER_BATCH)
        return reader.option("kafka.isolation.level", level).load()

    def agent(self, topic: str, level: str) -> TopicRunner:
        described = self.admin.describe([topic])[topic]
        assert described is not None
        partitions = range(described.partition_count)
        node = TopicNode(
            self.servers,
            f"{topic}-{level}",
            1,
            "g1",
            described.topic_id,
            initial_partitions=len(partitions),
            assignments=dict.fromkeys(partitions, "a"),
            since=dict.fromkeys(partitions, 1),
            incarnations={"a": 1},
        )
        runner = TopicRunner(topic, node, Identity("a", "c", 1), SystemClock(), self.connect, bool, acquiring=False)
        runner.edit(lambda holder: holder.on_node(node))
        self.server.serve(topic, runner)
        return runner

    def connect(self, node: TopicNode) -> GroupOffsets:
        settings = {"isolation.level": "read_uncommitted", **node.properties, "bootstrap.servers": self.servers}
        return ConfluentGroupOffsets(settings, node.group_id)

    def compare(self, level: str, topics: Sequence[str]) -> None:
        theirs = self.run(self.by_spark(level, topics), f"spark-{level}")
        assert theirs.awaitTermination(LIMIT_S), "Spark's own source did not end"
        agents = {topic: self.agent(topic, level) for topic in topics}
        queries = {topic: self.start(runner, level) for topic, runner in agents.items()}
        for topic, runner in agents.items():
            assert queries[topic].awaitTermination(LIMIT_S), f"{topic}, {level}: {runner.status()}"
            self.server.withdraw(topic)
            runner.close()

    def start(self, runner: TopicRunner, level: str) -> StreamingQuery:
        """A query of ours that has begun to read; started again where Python was too slow for Spark, as consumers do."""
        for _ in range(START_ATTEMPTS):
            query = self.run(self.by_us(runner.topic, level), f"ours-{level}")
            while query.isActive and not runner.edit(lambda holder: holder.opened):
                time.sleep(0.02)
            if SLOW_START not in str(query.exception()):
                break
        return query

    def write(self) -> None:
        for name, tables in self.rows.items():
            pq.write_table(pa.concat_tables(tables), self.folder / f"{name}.parquet")
        for name, stream in (("spark", self.by_spark(LEVELS[0], ["t"])), ("ours", self.by_us("t", LEVELS[0]))):
            (self.folder / f"{name}.schema").write_text(stream.schema.json())


def main(servers: str, prefix: str, folder: str, jars: str) -> None:
    both = Both(servers, Path(folder), jars)
    topics = sorted(name for name in AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics)
    everything = [topic for topic in topics if topic.startswith(prefix)]
    for level in LEVELS:
        both.compare(level, [topic for topic in everything if topic.endswith(MATTER[level])])
    both.write()
    both.server.close()
    both.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
