"""Runs a few test batches before a consumer registers, so that its first partitions do not wait for a cold Spark.

The first streaming batch of a new JVM takes seconds: the JVM loads classes, starts Python workers, and waits for their
imports. A registered consumer may get partitions at once, which would stand still for this time. The warm-up uses the
same parts (our source, Kafka clients, Python workers, `foreachBatch` and Arrow), but no record of Kafka, and not the
application's sink. It also checks whether the executors can read: if the password, our packages or the executors
themselves are missing, the consumer does not register.

Then each pipeline is rehearsed: the source fetches one record, which is dropped before the pipeline. The JVM loads the
classes of a fetch, and compiles the pipeline. Without a rehearsal, the first batch takes more than twice as long.
"""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.ports import GroupOffsets
from spark_apps.records.agent_socket import AgentServer, Attached, Latest, Reading
from spark_apps.records.batches import BatchOffset, Group, Range
from spark_apps.records.options import SourceOptions
from spark_apps.releases import arrow_table
from spark_apps.spark import source
from spark_apps.spark.stateless import keeps_state
from spark_apps.tracebacks import reason

TOPIC = "__assigned-kafka-warm-up"
BATCHES = 3
TASKS = 2
NO_RECORD = Range(0, 0, 0, 0)
LIMIT_S = 60.0
FIRST_LIMIT_S = 180.0
"""Seconds for the first batch, for which executors have to start, slowly on a busy host."""
REHEARSED, REHEARSALS_S = 2, 20.0
"""Batches of each rehearsal, and seconds for all rehearsals of a consumer."""
PARTITIONS_TRIED = 50
STOP_S = 10.0
POLL_S = 0.05
SLOW_START = "Python worker failed to connect back"
"""Spark gives its Python process ten seconds to start. A busy host needs longer, and no setting changes the limit."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A pipeline to rehearse. `rows` applies it to a stream, and returns the rows for its sink.

    `topic`, `record`: the record that the source fetches. With an empty range, no record is fetched.
    """

    rows: Callable[[DataFrame], DataFrame]
    topic: str = TOPIC
    record: Range = NO_RECORD


class WarmUpPlanner:
    """Plans batches of `TASKS` tasks. Each task makes its Kafka client, and the first task fetches `record`."""

    def __init__(self, brokers: str, topic: str = TOPIC, record: Range = NO_RECORD, batches: int = BATCHES) -> None:
        self.topic = topic
        self._brokers = brokers
        self._record = record
        self._batches = batches

    def attach(self, reader: str, options: SourceOptions) -> Attached:  # noqa: ARG002 (the protocol's signature)
        return Attached({"bootstrap.servers": self._brokers}, False)

    def initial(self, reader: str) -> BatchOffset:  # noqa: ARG002
        return BatchOffset(self.topic)

    def latest(self, reader: str, start: BatchOffset) -> Latest:  # noqa: ARG002
        return Latest(start.following((), TASKS) if start.batch < self._batches else start, None)

    def tasks(self, end: BatchOffset) -> Sequence[Group]:  # noqa: ARG002
        return [(self._record,), *((Range(number, 0, 0, 0),) for number in range(1, TASKS))]

    def until_now(self, reader: str) -> None:
        """Do nothing, since the batches end by themselves."""

    def is_over(self, reader: str) -> bool:  # noqa: ARG002
        return True

    def detach(self, reader: str) -> None:
        """Nothing to do."""


def warm_up(
    spark: SparkSession,
    brokers: str,
    options: Mapping[str, str] = MappingProxyType({}),
    settings_file: str = "",
    leaving: Callable[[], bool] = lambda: False,
) -> int:
    """Run the batches for at most `LIMIT_S`. Return the number of passed batches. Raises `Refused` if none passes.

    A consumer that cannot read a test batch cannot read a real batch either, and its partitions would stop. `options`:
    options of the application's source. `settings_file`: default of the option `kafkaSettingsFile`. `leaving`: returns
    whether a leave was requested, which ends the wait.
    """
    with _serving(spark, WarmUpPlanner(brokers), settings_file):
        return _warm_up(spark, options, leaving)


def newest_record(offsets: GroupOffsets, topic: str) -> Range:
    """Return the range of the last record of a partition, or `NO_RECORD`; raises `KafkaUnavailable`."""
    found = offsets.describe(topic)
    partitions = range(min(PARTITIONS_TRIED, found.partition_count if found is not None else 0))
    ends, firsts = offsets.ends(topic, partitions), offsets.beginnings(topic, partitions)
    held = (Range(p, end - 1, end, 0) for p, end in sorted(ends.items()) if end > firsts.get(p, end))
    return next(held, NO_RECORD)


def rehearse(
    spark: SparkSession,
    rehearsals: Iterable[Rehearsal],
    brokers: str,
    options: Mapping[str, str] = MappingProxyType({}),
    settings_file: str = "",
    leaving: Callable[[], bool] = lambda: False,
) -> int:
    """Run each pipeline without its sink, for at most `REHEARSALS_S` in all. Return the number of passed batches.

    A pipeline that fails here is only logged, since its own query reports the error. A pipeline whose state Spark keeps
    is left out. Parameters: as in `warm_up`.
    """
    began_s = time.monotonic()
    done: list[int] = []

    def over() -> bool:
        return leaving() or time.monotonic() - began_s > REHEARSALS_S

    for one in rehearsals:
        if over():
            break
        planner = WarmUpPlanner(brokers, one.topic, one.record, REHEARSED)
        read = {**options, "includeAssignment": "true", "subscribe": one.topic}
        with _serving(spark, planner, settings_file):
            error = _run(partial(_rehearsed, spark, one, read), REHEARSED, done, over)
        if error is not None:
            log.info("the pipeline of topic %s could not be rehearsed: %s", one.topic, reason(error))
    log.info("rehearsed the pipelines with %d batches in %.1f s", len(done), time.monotonic() - began_s)
    return len(done)


def _rehearsed(spark: SparkSession, rehearsal: Rehearsal, options: Mapping[str, str]) -> DataFrame | None:
    rows = rehearsal.rows(source.load_nothing(spark, **options))
    return None if keeps_state(rows) else rows


@contextmanager
def _serving(spark: SparkSession, planner: WarmUpPlanner, settings_file: str) -> Iterator[None]:
    """Bind the source to an agent that serves only this planner."""
    with closing(AgentServer(Reading("warm-up", 0, settings_file))) as server:
        server.serve(planner.topic, planner)
        with source.bound(spark, str(server.path)):
            yield


def _warm_up(spark: SparkSession, options: Mapping[str, str], leaving: Callable[[], bool]) -> int:
    began_s = time.monotonic()
    done: list[int] = []
    last: BaseException | None = None

    def over() -> bool:
        return leaving() or time.monotonic() - began_s > (LIMIT_S if done else FIRST_LIMIT_S)

    while not (done or over()):
        error = _run(partial(_trivial, spark, options), BATCHES, done, over)
        if error is not None:
            log.warning("the warm-up failed", exc_info=error)
        last = error or last
        if error is not None and SLOW_START not in str(error):
            break
    if not done and not leaving():
        why = f"none was read within {FIRST_LIMIT_S:g} s" if last is None else reason(last)
        raise Refused(
            f"the executors of {spark.sparkContext.master} cannot read a test batch, so this consumer does not register: "
            f"{why}; check that they start, and have Python, pyspark and pyarrow; a script of your own sends our packages by "
            "spark_apps.spark.session.ship_packages"
        )
    log.info("warmed up with %d batches in %.1f s", len(done), time.monotonic() - began_s)
    return len(done)


def _trivial(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    stream = source.load(spark, **{**options, "subscribe": TOPIC})
    if find_spec("pandas") is not None:  # without pandas, Spark refuses every Python stage, even ours
        stream = stream.mapInArrow(_unchanged, stream.schema)
    return stream.withColumn("text", F.col("value").cast("string"))


def _run(
    rows: Callable[[], DataFrame | None], batches: int, done: list[int], over: Callable[[], bool]
) -> BaseException | None:
    """Run one query of these rows, if any, until `over`. Add each finished batch to `done`.

    Return the error that ended the query, if any.
    """
    folder = tempfile.mkdtemp(prefix="consumer-warm-up-")
    until = len(done) + batches

    def collect(batch: DataFrame, number: int) -> None:
        arrow_table(batch)
        done.append(number)

    try:
        given = rows()
        if given is None:
            return None
        query = given.writeStream.option("checkpointLocation", folder).foreachBatch(collect).start()
        while len(done) < until and query.isActive and not over():
            time.sleep(POLL_S)
        failed = query.exception()
        # Without executors, Spark waits for its tasks for ever, so do not wait for the stop.
        stopper = threading.Thread(target=_stop, args=(query,), daemon=True)
        stopper.start()
        stopper.join(STOP_S)
    except Exception as error:  # noqa: BLE001 - a pipeline is a user's function
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches unchanged. A Python process starts on the executor, as for a pipeline's own function."""
    yield from batches


def _stop(query: StreamingQuery) -> None:
    with suppress(Py4JError, PySparkException, OSError):
        query.stop()
