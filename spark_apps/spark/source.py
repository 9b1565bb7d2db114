"""The data source `assigned-kafka`: reads the partitions of a topic that the coordinator assigns to this application.

    spark.readStream.format("assigned-kafka").option("subscribe", "orders").load()

Options and columns follow Spark's Kafka source (`options`, `columns`). The reader decides nothing: it asks the agent in
the main driver process, whose address `register` has put into the class. Spark makes the reader several times, in
several processes, and asks for the initial offset twice. So making a reader has no effect; its first request connects.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery.hooks import ConsumerInterceptor, intercepted
from spark_apps.records.agent_socket import HOW_TO_START, AgentClient
from spark_apps.records.batches import behind, decode_offset, plan_tasks
from spark_apps.records.columns import spark_schema
from spark_apps.records.options import SourceOptions, parse_options
from spark_apps.records.reader import Job, read

FORMAT = "assigned-kafka"


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The agent's address, its identity, the default of the option `kafkaSettingsFile`, and the interceptors."""

    socket: str
    consumer: str
    incarnation: int
    settings_file: str = ""
    interceptors: tuple[ConsumerInterceptor, ...] = ()


class AssignedKafkaSource(DataSource):
    """See the module. `agent` is set in the subclass that `register` makes."""

    agent: ClassVar[AgentAddress | None] = None

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns; checks the options, so that a wrong option fails at `load()`."""
        _agent_of(self)
        options = parse_options(self.options)
        return spark_schema(options.include_headers, options.include_assignment)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark's signature)
        """Refuse: there is no batch read."""
        raise Refused(
            f"{FORMAT} reads a stream whose partitions come and go; use spark.readStream, "
            "or Spark's own format 'kafka' to read a topic once"
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader; it does nothing before its first request."""
        if schema != self.schema():
            raise Refused(f"{FORMAT} has fixed columns; leave out .schema(...) and convert the columns afterwards")
        return AssignedStreamReader(dict(self.options), _agent_of(self))


def register(spark: SparkSession, agent: AgentAddress | None) -> None:
    """Register the format with this session, bound to the agent.

    With `None`, a load raises an error that tells how to start an agent.

    A second registration replaces the first for later queries.
    """
    # A local class, so that Spark pickles it by value, with the address in it, for the processes that it starts.
    bound = type("BoundAssignedKafkaSource", (AssignedKafkaSource,), {"agent": agent})
    spark.dataSource.register(bound)


def _agent_of(source: AssignedKafkaSource) -> AgentAddress:
    if source.agent is None:
        raise Refused(f"{FORMAT} needs an agent in this process, and there is none; {HOW_TO_START}")
    return source.agent


@dataclass
class Task(InputPartition):
    """One task of a batch."""

    job: Job


class AssignedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A thin stub to the agent; `read` runs on the executors."""

    def __init__(self, options: dict[str, str], agent: AgentAddress) -> None:
        self._raw = options
        self._options: SourceOptions = parse_options(options)
        self._agent = agent
        self._client: AgentClient | None = None
        self._log_end: dict[str, Any] | None = None
        self._until_now = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Handle the trigger available-now: read the records present when each partition started, and end."""
        self._connected().until_now()
        self._until_now = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset before the first batch."""
        return self._connected().initial()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """The next batch, or `start`; the agent knows the limit from the options."""
        client = self._connected()
        found, self._log_end = client.latest(start)
        # For Spark, no new batch means the end; but partitions may be on their way to this consumer.
        while self._until_now and found == start and not client.is_over():
            found, self._log_end = client.latest(start)
        return found

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the log's end at the last request, and each partition's lag, for the query's progress."""
        found = self._log_end
        return None if found is None else {**found, **behind(decode_offset(found))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch: its end offset has everything."""
        if start == end:
            return []
        attached = self._connected().attached
        return [
            Task(
                Job(
                    topic=self._options.topic,
                    ranges=group,
                    kafka=attached.kafka,
                    settings_file=self._options.settings_file or self._agent.settings_file,
                    include_headers=self._options.include_headers,
                    include_assignment=self._options.include_assignment,
                    consumer=self._agent.consumer,
                    incarnation=self._agent.incarnation,
                    fail_on_data_loss=attached.fail_on_data_loss,
                    progress_timeout_s=self._options.progress_timeout_s,
                    options=self._options.kafka,
                )
            )
            for group in plan_tasks(decode_offset(end))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, on an executor."""
        job = cast(Task, partition).job
        return intercepted(read(job), job.topic, self._agent.interceptors)

    def stop(self) -> None:
        """Leave the agent. Spark does not always call this; a closed connection has the same effect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> AgentClient:
        if self._client is None:
            self._client = AgentClient(self._agent.socket, uuid.uuid4().hex[:12], self._raw)
        return self._client
