"""The data source inside real Spark queries on a real broker; a planner in this process stands in for the agent."""

import json
import logging
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from spark_apps.errors import lost_records
from spark_apps.pipelines import audit, check_writer
from spark_apps.pipelines.outputs import check_kafka_key
from spark_apps.records.agent_socket import AgentServer, Reading
from spark_apps.records.batches import Range
from spark_apps.spark import source
from spark_apps.spark.stateless import STATEFUL, check_stateless
from spark_apps.spark.warm_up import BATCHES, REHEARSED, Rehearsal, rehearse, warm_up
from spark_apps.state import StateRefused
from spark_apps.tracebacks import reason
from tests.integration.agent_site import wait_for
from tests.integration.fake_planner import FakePlanner
from tests.integration.kafka_topics import expire, new_topic, produce
from tests.integration.spark_submit import local_spark

pytestmark = pytest.mark.integration
LIMIT_S = 180.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark("local[2]") as one:
        yield one


@pytest.fixture(scope="module")
def server() -> Iterator[AgentServer]:
    one = AgentServer(Reading("consumer-a", 3))
    yield one
    one.close()


class Stage:
    """Queries on topics of one test, and all rows of their sinks."""

    def __init__(self, spark: SparkSession, server: AgentServer, kafka: EmbeddedKafka, folder: Path) -> None:
        self.spark, self.server, self.folder = spark, server, folder
        self.servers = kafka.bootstrap_servers
        self.rows: list[dict[str, Any]] = []
        self.planners: list[FakePlanner] = []
        self.queries: list[StreamingQuery] = []
        source.register(spark, str(server.path))

    def planner(self, topic: str) -> FakePlanner:
        one = FakePlanner(topic, self.servers)
        self.planners.append(one)
        self.server.serve(topic, one)
        return one

    def stream(self, topic: str, **options: str) -> DataFrame:
        return source.load(self.spark, subscribe=topic, includeAssignment="true", **options)

    def start(self, stream: DataFrame) -> StreamingQuery:
        def collect(batch: DataFrame, _: int) -> None:
            at = time.monotonic()
            self.rows.extend({**row, "at": at} for row in batch.toArrow().to_pylist())

        return self.run(stream.writeStream.foreachBatch(collect))

    def run(self, writer: Any) -> StreamingQuery:
        folder = self.folder / f"checkpoint-{len(self.queries)}"
        query: StreamingQuery = writer.option("checkpointLocation", str(folder)).start()
        self.queries.append(query)
        return query

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            for query in self.queries:
                assert query.isActive, query.exception()
            assert time.monotonic() < deadline, f"not within {LIMIT_S} s; {len(self.rows)} rows"
            time.sleep(0.02)

    def close(self) -> None:
        for query in self.queries:
            query.stop()
        for planner in self.planners:
            self.server.withdraw(planner.topic)
            planner.close()


@pytest.fixture
def stage(spark: SparkSession, server: AgentServer, kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Stage]:
    one = Stage(spark, server, kafka, tmp_path)
    yield one
    one.close()


def of_spark(stream: DataFrame, *given: Any) -> Any:
    return super(source.AssignedRecords, stream).mapInArrow(*given)


@pytest.mark.parametrize(
    "session_settings",
    [{}, {"arrow.useLargeVarTypes": "true", "arrow.maxRecordsPerBatch": "3"}, {"arrow.maxRecordsPerBatch": "0"}],
    ids=["as they are", "large types, small batches", "no limit"],
)
def test_a_python_stage_gets_the_same_batches_in_blocks_as_from_spark(
    stage: Stage, session_settings: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(stage.servers, 2)
    producer = Producer({"bootstrap.servers": stage.servers})
    for number in range(20):
        headers = [("a", b"1"), ("b", None), ("a", b"")][: number % 4]
        key, value = [None, b"", b"k", b"key"][number % 4], [b"v", None, b"", bytes([number])][number // 4 % 4]
        producer.produce(topic, value, key, number % 2, timestamp=1_700_000_000_000 + number, headers=headers)
    assert producer.flush(20) == 0
    found: dict[str, list[pa.RecordBatch]] = {}
    for way, call in (("rows", of_spark), ("blocks", source.AssignedRecords.mapInArrow)):
        folder = tmp_path / way
        folder.mkdir()

        def store(batches: Iterator[pa.RecordBatch], into: Path = folder) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                with pa.ipc.new_stream(into / uuid.uuid4().hex, batch.schema) as file:
                    file.write_batch(batch)
                yield batch

        with _set(stage.spark, {f"spark.sql.execution.{name}": text for name, text in session_settings.items()}):
            stream = stage.stream(topic, includeHeaders="true")
            planner = stage.planner(topic)
            for partition in range(2):
                planner.give(partition, 0, 1)
            query = stage.start(call(stream, store, stream.schema))
            stage.wait(lambda q=query: sum(one["numInputRows"] for one in q.recentProgress) == 20)
            query.stop()
            stage.queries.remove(query)
        found[way] = [batch for file in folder.iterdir() for batch in pa.ipc.open_stream(file.read_bytes())]
    blocks, rows = (
        pa.Table.from_batches(batches).sort_by([("partition", "ascending"), ("offset", "ascending")])
        for batches in found.values()
    )
    assert blocks.schema == rows.schema
    assert blocks == rows
    assert len(rows) == 20
    most = int(session_settings.get("arrow.maxRecordsPerBatch", 0)) or 20
    assert max(len(batch) for batch in found["blocks"]) == min(most, max(len(batch) for batch in found["rows"]))


def test_two_stages_of_a_query_read_the_topic_once(stage: Stage) -> None:
    topic = new_topic(stage.servers, 1)
    produce(stage.servers, topic, [b"v"] * 10)
    stage.planner(topic).give(0, 0, 1)

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    stream = stage.stream(topic)
    stage.start(stream.mapInArrow(same, stream.schema).union(stream.mapInArrow(same, stream.schema)))
    stage.wait(lambda: len(stage.rows) == 20)
    assert Counter(row["offset"] for row in stage.rows) == dict.fromkeys(range(10), 2)


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, text in settings.items():
        spark.conf.set(name, text)
    yield
    for name in settings:
        spark.conf.unset(name)


def test_progress_says_how_far_every_partition_is_behind_and_jobs_carry_the_topics_name(stage: Stage) -> None:
    topic = new_topic(stage.servers, 2)
    produce(stage.servers, topic, [b"v"] * 30, 0)
    planner = stage.planner(topic)
    planner.give(0, 0, 1)
    planner.give(1, 0, 1)
    stage.spark.sparkContext.addJobTag(topic)
    try:
        writer = stage.stream(topic, maxOffsetsPerTrigger="10").writeStream.queryName(topic)
        query = stage.run(writer.foreachBatch(lambda batch, _: batch.count()))
        stage.wait(lambda: planner.passed.get(0) == 30)
    finally:
        stage.spark.sparkContext.clearJobTags()
    progress = [json.loads(one.json) for one in query.recentProgress if one.numInputRows]
    said = [one["sources"][0]["latestOffset"] for one in progress]
    assert [one["lag"].keys() for one in said] == [{"0", "1"}] * 3
    assert all(one["ranges"]["0"][1] == 30 for one in said)
    behind = [one["maxOffsetsBehindLatest"] for one in said]
    assert behind == sorted(behind, reverse=True)
    assert behind[-1] < 30
    context = stage.spark.sparkContext._jsc.sc()
    jobs = [context.statusStore().job(job) for job in context.statusTracker().getJobIdsForTag(topic)]
    assert len(jobs) >= 3
    assert all(str(job.description().get()).startswith(topic) for job in jobs)


def test_a_second_query_on_the_topic_is_refused_and_the_first_goes_on(stage: Stage) -> None:
    topic = new_topic(stage.servers, 1)
    planner = stage.planner(topic)
    planner.give(0, 0, 1)
    first = stage.start(stage.stream(topic))
    stage.wait(lambda: planner.latest_calls > 0)
    second = stage.start(stage.stream(topic))
    with pytest.raises(Exception, match="is read by another query of this application already"):
        second.awaitTermination(30)
    stage.queries.remove(second)
    produce(stage.servers, topic, [b"v"] * 3)
    stage.wait(lambda: len(stage.rows) == 3)
    assert first.isActive


def test_a_query_that_the_source_refuses_keeps_no_later_one_out(stage: Stage) -> None:
    topic = new_topic(stage.servers, 1)
    stage.planner(topic)
    for _ in range(2):
        refused = stage.start(stage.stream(topic, **{"kafka.ssl.crl.location": "/crl.pem"}))
        with pytest.raises(Exception, match=r"BadSettings: .*ssl\.crl\.location"):
            refused.awaitTermination(30)
        stage.queries.remove(refused)


@pytest.mark.parametrize("by_function", [True, False], ids=["foreachBatch", "a sink of Spark"])
def test_lost_records_are_told_with_their_partition_by_any_sink(stage: Stage, by_function: bool) -> None:
    topic = new_topic(stage.servers, 1)
    produce(stage.servers, topic, [b"v"] * 10)
    expire(stage.servers, topic, 0, 4)
    stage.planner(topic).give(0, 0, 1)
    stream = stage.stream(topic)
    query = stage.start(stream) if by_function else stage.run(stream.writeStream.format("noop"))
    stage.queries.remove(query)
    with pytest.raises(Exception, match="DataLost"):
        query.awaitTermination(60)
    ended = query.exception()
    assert ended is not None
    assert lost_records(reason(ended)) == (0, "offsets 0 to 3 are gone, the log begins at 4")


def test_a_stream_into_files_is_refused_because_a_restart_would_lose_batches(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(Refused, match=r"drops batches whose number it has seen.*foreachBatch") as found:
        check_writer(stream.writeStream.format("JSON").option("path", "anywhere"))
    assert "\n" not in str(found.value)


def grouped(stream: DataFrame) -> DataFrame:
    return stream.groupBy(F.window("timestamp", "1 minute")).count()


def within_watermark(stream: DataFrame) -> DataFrame:
    return stream.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["value"])


def with_pandas(stream: DataFrame) -> DataFrame:
    return stream.groupBy("value").applyInPandasWithState(
        lambda _key, frames, _state: frames, "value long", "seen long", "update", GroupStateTimeout.NoTimeout
    )


def transformed(stream: DataFrame) -> DataFrame:
    nobody = cast(Any, None)  # the plan is only looked at
    return stream.groupBy("value").transformWithState(nobody, "value long", "update", "none")


# Operator of Catalyst → name in the refusal, and a query with the operator. Operators of other languages have no query.
DUPLICATES = "removal of duplicates"
QUERIES: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "Aggregate": ("an aggregation", grouped),
    "Distinct": (DUPLICATES, lambda stream: stream.sparkSession.sql("SELECT DISTINCT value FROM {s}", s=stream)),
    "Deduplicate": (DUPLICATES, lambda stream: stream.dropDuplicates(["value"])),
    "DeduplicateWithinWatermark": (DUPLICATES, within_watermark),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState()", with_pandas),
    "TransformWithStateInPySpark": ("transformWithState()", transformed),
    "GlobalLimit": ("limit()", lambda stream: stream.limit(3)),
    "Join": ("a join of two streams", lambda one: one.join(one.withColumnRenamed("timestamp", "other"), "value")),
}
OF_SCALA = {"FlatMapGroupsWithState", "TransformWithState"}


def test_every_operator_with_state_has_a_query_or_is_one_of_scala_and_all_are_sparks(spark: SparkSession) -> None:
    assert STATEFUL.keys() | {"Join"} == QUERIES.keys() | OF_SCALA
    for name in STATEFUL:
        assert spark._jvm.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.plans.logical.{name}")


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("operator", QUERIES)
def test_a_query_that_keeps_state_is_refused_with_the_operator_unless_it_may_stay_behind(
    spark: SparkSession, operator: str
) -> None:
    name, query = QUERIES[operator]
    writer = query(spark.readStream.format("rate").load()).writeStream
    assert operator in str(writer._df._jdf.queryExecution().analyzed())
    with pytest.raises(Refused, match=r"state between batches \(" + re.escape(name)) as found:
        check_stateless(writer)
    assert "\n" not in str(found.value)
    check_stateless(writer, state_stays_behind=True)


KEYS_OF_KAFKA = {
    "as it comes": lambda stream: stream,
    "as text": lambda stream: stream.selectExpr("CAST(key AS STRING) AS key", "partition", "offset"),
    "with another column": lambda stream: stream.withColumn("key", F.concat("key", "value")),
    "behind a filter and a time": lambda stream: stream.where("offset > 3").withWatermark("timestamp", "1 second"),
    "from a Python stage": lambda stream: stream.select("key").mapInArrow(lambda batches: batches, "key BINARY"),
}
OTHER_KEYS = {
    "value of the stream": lambda stream: stream.withColumn(
        "key", F.get_json_object(F.col("value").cast("string"), "$.id")
    ),
    "value of": lambda stream: stream.select(F.col("value").alias("key")).where("key IS NOT NULL"),
    "partition and topic": lambda stream: stream.withColumn("key", F.concat("topic", "partition")),
    "no column": lambda stream: stream.withColumn("key", F.lit("all")),
}


@pytest.mark.parametrize("frame", KEYS_OF_KAFKA.values(), ids=KEYS_OF_KAFKA)
def test_a_key_that_is_or_may_be_kafkas_is_taken(stage: Stage, frame: Callable[[DataFrame], DataFrame]) -> None:
    check_kafka_key(frame(stage.stream("orders")), ["key"])


@pytest.mark.parametrize("columns", OTHER_KEYS)
def test_a_key_from_other_columns_is_refused_by_their_names(stage: Stage, columns: str) -> None:
    with pytest.raises(StateRefused, match=f"the grouping column key is computed from {columns}.*determines_partition"):
        check_kafka_key(OTHER_KEYS[columns](stage.stream("orders")), ["key"])
    check_kafka_key(OTHER_KEYS[columns](stage.stream("orders")), ["value"])


def test_a_warm_up_runs_its_batches_and_leaves_no_query(spark: SparkSession) -> None:
    assert 1 <= warm_up(spark, "127.0.0.1:1") <= BATCHES
    assert not spark.streams.active


def test_a_warm_up_needs_no_pandas(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert warm_up(spark, "127.0.0.1:1") >= 1


def test_a_warm_up_that_cannot_make_a_kafka_client_is_refused_with_the_executors_error(spark: SparkSession) -> None:
    logged_in = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    with pytest.raises(
        Refused, match=r"does not register: BadSettings: .*the executors have no sasl\.password.*; check"
    ):
        warm_up(spark, "127.0.0.1:1", logged_in)
    assert not spark.streams.active


class Read(StreamingQueryListener):
    """How many records each batch of any query has read."""

    def __init__(self) -> None:
        self.records: list[int] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.records.append(event.progress.numInputRows)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def noting(folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            (folder / uuid.uuid4().hex).touch()
        yield batch


def test_a_rehearsal_fetches_a_record_and_no_pipeline_gets_it(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: DataFrame) -> DataFrame:
        raise ZeroDivisionError("no rows today")

    topic = new_topic(kafka.bootstrap_servers, 1)
    produce(kafka.bootstrap_servers, topic, [b"{}"] * 5)
    stage = partial(noting, tmp_path)
    rehearsals = [
        Rehearsal(broken, topic),
        Rehearsal(lambda stream: stream.groupBy("topic").count(), topic),  # Spark would keep its state
        Rehearsal(lambda stream: audit.processed(stream).mapInArrow(stage, audit.processed(stream).schema), topic),
        Rehearsal(lambda stream: stream.mapInArrow(stage, stream.schema), topic, Range(0, 4, 5, 0)),
    ]
    read = Read()
    spark.streams.addListener(read)
    try:
        with caplog.at_level(logging.INFO):
            assert rehearse(spark, rehearsals, kafka.bootstrap_servers) == 2 * REHEARSED
        wait_for(lambda: 1 in read.records, "a batch has read the record")
    finally:
        spark.streams.removeListener(read)
    assert list(tmp_path.iterdir()) == []
    assert f"the pipeline of topic {topic} could not be rehearsed: no rows today" in caplog.text
    assert not spark.streams.active


def test_a_batch_read_is_refused(stage: Stage) -> None:
    with pytest.raises(Exception, match=r"use spark\.readStream"):
        stage.spark.read.format("assigned-kafka").option("subscribe", "orders").load().collect()


def test_without_an_agent_the_error_says_how_to_start_one(stage: Stage) -> None:
    source.unregister(stage.spark)
    with pytest.raises(Exception, match="needs an agent in this process, and there is none; start the agent first"):
        stage.spark.readStream.format("assigned-kafka").option("subscribe", "orders").load()
