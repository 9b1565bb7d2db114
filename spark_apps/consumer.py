"""A consumer for PySpark scripts, which reads the partitions that the coordinator assigns.

    with Consumer.from_environment(spark, "orders-1") as consumer:
        consumer.pipeline("orders", build)            # build(stream, settings) -> DataStreamWriter
        consumer.pipeline(pattern="clicks-.*", build=build_clicks)
        sys.exit(consumer.run())                      # until SIGTERM or a failure

Each topic has one streaming query, and each query a checkpoint folder per incarnation. A query starts when its topic
appears in ZooKeeper and a registered pipeline matches. In this process `spark.readStream.format("assigned-kafka")` is
bound to the agent. Every start begins at the committed position, so no checkpoint outlives its process.
"""

import logging
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.core.errors import BadOption, NoAccess, Refused, Unavailable
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.text import topic_patterns
from coordinator_tasks.settings import settings_from_environment
from spark_apps.agent.process.consumer_process import ConsumerSettings, Process, leave_on_signals, open_process
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.dead_letters.recovery import Site
from spark_apps.delivery.hooks import Hooks, intercepted
from spark_apps.delivery.lineage import outputs_of
from spark_apps.pipelines import Build, Output
from spark_apps.pipelines.bad_records import Rerun
from spark_apps.pipelines.outputs import agreed_writer, rows_before_sink
from spark_apps.records.agent_socket import AgentServer, Reading
from spark_apps.spark import progress, session, source
from spark_apps.spark.asking import Asking
from spark_apps.spark.executors import Executors
from spark_apps.spark.stateless import check_stateless
from spark_apps.spark.subscription import registered
from spark_apps.spark.topic_query import SPARK_ERRORS, TopicQuery
from spark_apps.spark.warm_up import Rehearsal, newest_record, rehearse, warm_up
from spark_apps.topic_readers import TopicReaders, make_runner

ANY = ".*"
END_S = 5.0
TOPICS_TRIED = 5
"""Topics of a pipeline in which a record is looked for, for its rehearsal."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of a consumer's queries. Raises `BadOption` for the option that names a topic.

    `options`: options of the data source, for every topic. `pipeline`: settings passed to `build`. `checkpoints`:
    folder for this process's checkpoints; empty = a temporary folder; with executors on other hosts, the driver must
    reach the folder. `kafka_file`: path of Kafka's secret settings on the executors. `idempotent_sink`: allow
    speculative execution. `state_stays_behind`: allow queries whose Spark state does not move with a partition.
    `warm_up`: before the registration, run a few empty batches, and each pipeline without records and without its sink,
    so that the first partitions do not wait for a cold Spark; a consumer whose executors cannot read an empty batch does
    not register. `hooks`: a listener and interceptors for all topics.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    pipeline: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str = ""
    kafka_file: str = ""
    idempotent_sink: bool = False
    state_stays_behind: bool = False
    warm_up: bool = True
    hooks: Hooks = field(default_factory=Hooks)

    def __post_init__(self) -> None:
        if any(name.strip().lower() == "subscribe" for name in self.options):
            raise BadOption("option 'subscribe' is set for each topic that a pipeline is for; leave it out")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline's function, and its topics: a name, a regular expression, or all other topics."""

    build: Build
    name: str = ""
    pattern: str = ""

    def matches(self, topic: str) -> bool:
        """Return whether the function is for this topic. The caller tries names, then patterns, then the default."""
        return topic == self.name or (bool(self.pattern) and topic_patterns.matches(self.pattern, topic))


class Consumer(TopicReaders[TopicQuery]):
    """The only consumer of this process; see the module. Implements `agent.topics.Topics`."""

    def __init__(self, spark: SparkSession, settings: ConsumerSettings, how: SparkSettings | None = None) -> None:
        super().__init__()
        self._spark = spark
        self._settings = settings
        self._how = how or SparkSettings()
        self._pipelines: list[Pipeline] = []
        self._ending = ExitStack()
        self._process: Process | None = None
        self._server: AgentServer | None = None
        self._checkpoints = Path()
        self._executors: Executors | None = None
        self._asking = Asking("spark-cores")
        self._parallelism = settings.pacing.parallelism

    @classmethod
    def from_environment(cls, spark: SparkSession, consumer: str, how: SparkSettings | None = None) -> Self:
        """Return the consumer with this id and the site's settings (`COORDINATOR_*`); raises `BadSettings`."""
        return cls(spark, ConsumerSettings(settings_from_environment(), consumer), how)

    def __enter__(self) -> Self:
        """Connect and draw the incarnation. Raises `Refused` for the session, `StoreUnavailable` for ZooKeeper."""
        with ExitStack() as ending:
            for sentence in session.check(self._spark, idempotent_sink=self._how.idempotent_sink):
                log.warning("%s", sentence)
            session.start_fast(self._spark)
            self._process = ending.enter_context(open_process(self._settings))
            self._executors = Executors(self._spark)
            ending.callback(self._executors.close)
            identity = self._process.identity
            self._server = AgentServer(Reading(identity.consumer, identity.incarnation, self._how.kafka_file))
            ending.callback(self._server.close)
            source.register(self._spark, str(self._server.path))
            ending.callback(self._bind_to_nobody)
            root = Path(self._how.checkpoints or tempfile.mkdtemp(prefix="consumer-checkpoints-"))
            self._checkpoints = root / identity.cluster / identity.consumer / str(identity.incarnation)
            ending.callback(shutil.rmtree, self._checkpoints if self._how.checkpoints else root, ignore_errors=True)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._asking.close()
        self._ending.close()

    def _bind_to_nobody(self) -> None:
        """Unbind the source from the agent that has ended.

        If the JVM hangs, the end of session and registration waits at most `END_S` for this call.
        """
        asking = Asking("spark-end")
        asking.ask(lambda: source.unregister(self._spark), END_S)
        asking.close()

    def pipeline(self, name: str = "", build: Build | None = None, *, pattern: str = "", default: bool = False) -> None:
        """Set the function for the topic `name`, for topics that match `pattern`, or for all other topics (`default`).

        `build(stream, settings)` gets the stream, with Kafka's columns and the columns of the assignment. It returns a
        `DataStreamWriter`. Raises `Refused`.
        """
        if build is None or sum((bool(name), bool(pattern), default)) != 1:
            raise Refused("a pipeline needs a function and one of: a topic's name, pattern=, default=True")
        topic_patterns.check(pattern)
        if any((one.name, one.pattern) == (name, ANY if default else pattern) for one in self._pipelines):
            what = f"topic {name}" if name else f"pattern {pattern}" if pattern else "default"
            raise Refused(f"the {what} has a pipeline already; write both outputs in one function")
        self._pipelines.append(Pipeline(build, name, ANY if default else pattern))
        self._pipelines.sort(key=lambda one: (not one.name, one.pattern == ANY))

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or a failure. Return 0 after a clean leave, 1 after a forced leave.

        Raises `IdInUse` if another live process has this id, and `Refused` if the executors cannot read a test batch.
        """
        if self._process is None:
            raise Refused("use the consumer in a with statement: with Consumer(spark, settings) as consumer: ...")
        if threading.current_thread() is not threading.main_thread():
            return self._serve(self._process)
        with leave_on_signals(self._process.leave):
            return self._serve(self._process)

    def _pipeline_of(self, topic: str) -> Pipeline | None:
        return next((one for one in self._pipelines if one.matches(topic)), None)

    def _registered(self) -> tuple[str, ...]:
        """Return the topics to register: those with a pipeline, within the limits of the settings."""
        names = [one.name for one in self._pipelines if one.name]
        patterns = [one.pattern for one in self._pipelines if one.pattern]
        return registered(self._settings.topics, names, patterns, default=ANY in patterns)

    def _serve(self, process: Process) -> int:
        process.wants(self._registered())
        if self._how.warm_up:
            brokers = self._settings.site.kafka["bootstrap.servers"]
            how = (brokers, self._how.options, self._how.kafka_file, lambda: process.leaving)
            warm_up(self._spark, *how)
            rehearse(self._spark, self._rehearsals(process), *how)
        context = self._spark.sparkContext
        process.works_in(context.uiWebUrl or "", context.applicationId or "")
        return process.run(self)

    def _rehearsals(self, process: Process) -> list[Rehearsal]:
        """Return the rehearsals of the pipelines that have an existing topic."""
        found: list[Rehearsal | None] = []
        try:
            found += (self._rehearsal(process, pipeline) for pipeline in self._pipelines)
        except (Unavailable, NoAccess) as error:
            log.info("some pipelines are not rehearsed: %s", error)
        return [one for one in found if one is not None]

    def _rehearsal(self, process: Process, pipeline: Pipeline) -> Rehearsal | None:
        """Return a rehearsal with the first topic that has a record, else with the last of `TOPICS_TRIED` topics."""
        found = None
        topics = process.topics(lambda topic: self._pipeline_of(topic) is pipeline)
        for topic, node in islice(topics, TOPICS_TRIED):
            with suppress(NoAccess):
                record = newest_record(process.connect(node), topic)
                found = Rehearsal(partial(self._rows, topic, pipeline.build), topic, record)
                if record.size:
                    break
        return found

    def _rows(self, topic: str, build: Build, stream: DataFrame) -> DataFrame:
        return rows_before_sink(build(self._intercepted(topic, stream), self._how.pipeline))

    def leave(self, within_s: float | None = None) -> None:
        if self._process is not None:
            self._process.leave(within_s)

    # agent.topics.Topics ---------------------------------------------------------------------------------------------

    def appeared(self, topic: str, node: TopicNode) -> str:
        process, server = self._process, self._server
        found = self._pipeline_of(topic)
        if found is None:
            return (
                f"topic {topic} may be assigned to this consumer, but none of its pipelines matches: its partitions would not be read; "
                "add a pipeline for it, or leave it out of --topics"
            )
        if process is None or server is None:
            return "the consumer is not open"
        pacing = replace(process.settings.pacing, parallelism=self._cores())
        runner = make_runner(process, topic, node, pacing=pacing, acquiring=False)
        server.serve(topic, runner)
        build = found.build
        self._topics[topic] = TopicQuery(
            runner, lambda attempt: self._query(runner, build, attempt), self._active_tasks
        )
        return ""

    def _cores(self) -> int:
        """Return Spark's parallelism, or the last known value if the JVM does not answer within `END_S`."""
        with suppress(*SPARK_ERRORS):  # the queries notice the end of Spark
            self._parallelism = (
                self._asking.ask(lambda: self._spark.sparkContext.defaultParallelism, END_S) or self._parallelism
            )
        return self._parallelism

    def _query(self, runner: TopicRunner, build: Build, attempt: int) -> StreamingQuery:
        topic = runner.topic
        # Spark takes group and description of the jobs: it ends a query's jobs by their group.
        self._spark.sparkContext.addJobTag(topic)
        options = {"includeAssignment": "true", **self._how.options, "subscribe": topic}
        stream = self._intercepted(topic, source.load(self._spark, **options))
        writer = agreed_writer(
            runner, build(stream, self._how.pipeline), self._how.hooks, *self._of_bad_records(topic, build, stream)
        )
        check_stateless(writer, state_stays_behind=self._how.state_stays_behind)
        # A new folder for each attempt: from an old folder, Spark would repeat the batch that the last query could not
        # finish.
        checkpoint = str(self._checkpoints / topic / str(attempt))
        if self._process is not None:
            self.tell_lineage(self._process, runner, outputs_of(build, self._how.pipeline))
        return progress.start(writer.option("checkpointLocation", checkpoint).queryName(topic))

    def _of_bad_records(self, topic: str, build: Build, stream: DataFrame) -> tuple[Site, Rerun]:
        process, settings = self._process, self._how.pipeline

        def again(frame: DataFrame) -> Output:
            return build(self._intercepted(topic, frame), settings)

        who = ("", 0) if process is None else (process.identity.consumer, process.identity.incarnation)
        return Site(settings, None if process is None else process.records), Rerun(topic, again, stream.schema, *who)

    def _intercepted(self, topic: str, stream: DataFrame) -> DataFrame:
        interceptors = self._how.hooks.consuming
        if not interceptors:
            return stream
        return stream.mapInArrow(partial(intercepted, topic=topic, interceptors=interceptors), stream.schema)

    def failure(self) -> str:
        """Return why no query can read any more; empty while one can. Leave if all have read the available records."""
        problem = next((why for one in self._topics.values() if (why := one.check())), "")
        gave_up = [one.gave_up for one in self._topics.values()]
        if gave_up and all(gave_up):
            problem = problem or gave_up[0]
        if self._executors is not None:
            problem = problem or self._executors.lost()
        if self._topics and all(one.over for one in self._topics.values()):
            self.leave()
        return problem

    def trouble(self) -> str:
        """Return a sentence if the application has no executors or a query does not start; else an empty text."""
        busy = any(
            one.runner.see(lambda ownership: ownership.batches.outstanding is not None) for one in self._topics.values()
        )
        missing = "" if self._executors is None else self._executors.missing(busy=busy)
        return missing or next((why for one in self._topics.values() if (why := one.trouble())), "")

    def _active_tasks(self, run: str) -> int:
        tracker = self._spark.sparkContext.statusTracker()
        active = set(tracker.getActiveStageIds())
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(run)]
        stages = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds if one in active]
        return sum(stage.numActiveTasks for stage in stages if stage)
