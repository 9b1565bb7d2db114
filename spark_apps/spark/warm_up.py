"""Runs a few test batches before a consumer registers, so that its first partitions do not wait for a cold Spark.

The first streaming batch of a new JVM takes seconds: the JVM loads classes, starts Python workers, and waits for their
imports. A registered consumer may get partitions at once, which would stand still for this time. The warm-up uses the
same parts (our source, Kafka clients, Python workers, `foreachBatch` and Arrow), but no record of Kafka, and not the
application's sink. It also checks whether the executors can read: if the password, our packages or the executors
themselves are missing, the consumer does not register.
"""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from types import MappingProxyType

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.core.errors import Refused
from spark_apps.records.agent_socket import AgentServer, Attached, Latest, Reading
from spark_apps.records.batches import BatchOffset, Group, Range
from spark_apps.records.options import SourceOptions
from spark_apps.spark import source
from spark_apps.tracebacks import reason

TOPIC = "__assigned-kafka-warm-up"
BATCHES = 3
TASKS = 2
LIMIT_S = 60.0
FIRST_LIMIT_S = 180.0
"""Seconds for the first batch, for which executors have to start, slowly on a busy host."""
STOP_S = 10.0
POLL_S = 0.05
SLOW_START = "Python worker failed to connect back"
"""Spark gives its Python process ten seconds to start. A busy host needs longer, and no setting changes the limit."""
log = logging.getLogger(__name__)


class WarmUpPlanner:
    """Plans `BATCHES` batches of `TASKS` tasks. Each task makes its Kafka client and reads no record."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers

    def attach(self, reader: str, options: SourceOptions) -> Attached:  # noqa: ARG002 (the protocol's signature)
        return Attached({"bootstrap.servers": self._brokers}, True)

    def initial(self, reader: str) -> BatchOffset:  # noqa: ARG002
        return BatchOffset(TOPIC)

    def latest(self, reader: str, start: BatchOffset) -> Latest:  # noqa: ARG002
        return Latest(start.following((), TASKS) if start.batch < BATCHES else start, None)

    def tasks(self, end: BatchOffset) -> Sequence[Group]:  # noqa: ARG002
        return [(Range(number, 0, 0, 0),) for number in range(TASKS)]

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
    server = AgentServer(Reading("warm-up", 0, settings_file))
    server.serve(TOPIC, WarmUpPlanner(brokers))
    try:
        with source.bound(spark, str(server.path)):
            return _warm_up(spark, options, leaving)
    finally:
        server.close()


def _warm_up(spark: SparkSession, options: Mapping[str, str], leaving: Callable[[], bool]) -> int:
    began_s = time.monotonic()
    done: list[int] = []
    last: BaseException | None = None

    def over() -> bool:
        return leaving() or time.monotonic() - began_s > (LIMIT_S if done else FIRST_LIMIT_S)

    while not (done or over()):
        error = _run(spark, options, done, over)
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


def _run(
    spark: SparkSession, options: Mapping[str, str], done: list[int], over: Callable[[], bool]
) -> BaseException | None:
    """Run one query until `over`. Add each finished batch to `done`. Return the error that ended the query, if any."""
    folder = tempfile.mkdtemp(prefix="consumer-warm-up-")

    def collect(batch: DataFrame, number: int) -> None:
        batch.toArrow()
        done.append(number)

    try:
        stream = source.load(spark, **{**options, "subscribe": TOPIC})
        if find_spec("pandas") is not None:  # without pandas, Spark refuses every Python stage, even ours
            stream = stream.mapInArrow(_unchanged, stream.schema)
        text = stream.withColumn("text", F.col("value").cast("string"))
        query = text.writeStream.option("checkpointLocation", folder).foreachBatch(collect).start()
        while len(done) < BATCHES and query.isActive and not over():
            time.sleep(POLL_S)
        failed = query.exception()
        # Without executors, Spark waits for its tasks for ever, so do not wait for the stop.
        stopper = threading.Thread(target=_stop, args=(query,), daemon=True)
        stopper.start()
        stopper.join(STOP_S)
    except (Py4JError, PySparkException, OSError) as error:
        log.warning("the warm-up failed", exc_info=True)
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
