"""The start of a topic's query: its pipeline, its settings, and a new start after a slow Python process."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.wiring import Settings
from spark_apps import consumer
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.agent.settings import Pacing
from spark_apps.consumer import TOPICS_TRIED, Consumer, SparkSettings
from spark_apps.delivery import Delivery
from spark_apps.delivery.hooks import ConsumerRebalanceListener, Hooks
from spark_apps.errors import DataLost, lost_records
from spark_apps.pipelines import outputs
from spark_apps.spark import progress, source, topic_query
from spark_apps.spark.topic_query import START_ATTEMPTS, TopicQuery
from spark_apps.spark.warm_up import SLOW_START
from tests.fakes.kafka import FakeKafka

STREAM = SimpleNamespace(schema=None)
SITE = Settings("c", "zk:2181", {"bootstrap.servers": "k:9092"})


class Ended:
    """An ended query."""

    isActive = False  # noqa: N815 (Spark's name)
    runId = "run"  # noqa: N815

    def __init__(self, why: str) -> None:
        self._why = why

    def exception(self) -> Exception:
        return RuntimeError(self._why)

    def stop(self) -> None: ...


class Runner:
    """`failed`: the reasons of all failed reads."""

    topic = "orders"
    over = False

    def __init__(self, opened: bool) -> None:
        self.lost: list[tuple[int, str]] = []
        self.failed: list[str] = []
        self.said: list[str] = []
        self.readers = int(opened)
        self.ownership = SimpleNamespace(
            query_lost=lambda *lost: self.lost.append(lost),
            query_failed=self._fail,
            reports=SimpleNamespace(add=lambda _, text: self.said.append(text), clear=lambda _: None),
        )

    def _fail(self, why: str) -> float:
        self.failed.append(why)
        return 0.0

    def edit(self, change: Any) -> Any:
        return change(self.ownership)


@pytest.fixture(autouse=True)
def _check_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_query, "CHECK_S", -1.0)


def outcome(why: str, *, opened: bool) -> tuple[int, TopicQuery, Runner]:
    """How often the query was started in a few looks."""
    started: list[Ended] = []

    def start(_: int) -> Any:
        started.append(Ended(why))
        return started[-1]

    runner = Runner(opened)
    topic = TopicQuery(cast(Any, runner), start, lambda _: 0)
    for _ in range(START_ATTEMPTS * 2):
        topic._thread.join()
        topic.check()
    topic._thread.join()
    return len(started), topic, runner


@pytest.mark.parametrize("why", [SLOW_START, "no such column"])
def test_a_query_that_fails_is_told_at_once_and_started_again_and_the_consumer_stays(why: str) -> None:
    started, topic, runner = outcome(why, opened=True)
    assert (started, topic.problem, topic.gave_up) == (1 + START_ATTEMPTS * 2, "", "")
    assert runner.failed == [why] * START_ATTEMPTS * 2


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_pipeline_that_fails_to_start_its_query_is_tried_again(error: type[BaseException]) -> None:
    raised = [error("no such table"), error("no such table")]

    def start(_: int) -> Any:
        if raised:
            raise raised.pop()
        return Ended("")

    runner = Runner(False)
    topic = TopicQuery(cast(Any, runner), start, lambda _: 0)
    topic._thread.join()
    assert runner.failed == ["the query could not be started: no such table"] * 2
    assert (topic.problem, topic._attempts) == ("", 3)


@pytest.mark.parametrize(
    "error",
    [Py4JNetworkError("the JVM is gone"), RuntimeError("Cannot call methods on a stopped SparkContext.")],
    ids=["the JVM", "its context"],
)
def test_the_end_of_spark_itself_ends_the_consumer(error: Exception) -> None:
    def start(_: int) -> Any:
        raise error

    topic = TopicQuery(cast(Any, Runner(True)), start, lambda _: 0)
    topic._thread.join()
    assert topic.check() == f"topic orders: the query could not be started: {error}"


def test_a_query_that_takes_long_to_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_query, "STARTS_S", 0.0)
    runner = Runner(False)
    topic = TopicQuery(cast(Any, runner), lambda _: cast(Any, Ended("")), lambda _: 0)
    topic._thread.join()
    assert topic.trouble() == "topic orders: its query has been starting for 0 s and reads nothing yet"
    runner.readers = 1
    assert topic.trouble() == ""


class Dying(Ended):
    """A query with a failed batch and a failed end of its thread: Spark reports an active query for ever."""

    isActive = True  # noqa: N815


def test_a_failed_query_that_spark_calls_active_has_ended_without_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Dying] = []

    def start(_: int) -> Any:
        started.append(Dying(SLOW_START))
        return started[-1]

    topic = TopicQuery(cast(Any, Runner(False)), start, lambda _: 0)
    topic._thread.join()
    assert topic.check() == "", "a query that ends is active until its source has stopped"
    monkeypatch.setattr(topic_query, "DYING_S", 0.0)
    assert topic.check() == f"topic orders: the query has ended: {SLOW_START}"
    assert len(started) == 1


class Hanging(Ended):
    """A query whose JVM does not answer until `answers` is set."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.answers = threading.Event()

    @property
    def isActive(self) -> bool:  # type: ignore[override]  # noqa: N802
        assert self.answers.wait(20)
        return False


def test_a_hanging_jvm_blocks_no_caller_and_its_late_answer_counts() -> None:
    """The calling thread makes hand-offs, and checks the progress."""
    query = Hanging("no such column")
    topic = TopicQuery(cast(Any, Runner(opened=True)), lambda _: cast(Any, query), lambda _: 0)
    topic._thread.join()
    began = time.monotonic()
    assert [topic.check() for _ in range(20)] == [""] * 20
    assert time.monotonic() - began < 5
    query.answers.set()
    while topic._attempts < 2:
        topic.check()
        assert time.monotonic() - began < 20
        time.sleep(0.01)
    assert topic.runner.failed[0] == "no such column"  # type: ignore[attr-defined]
    topic._ending.set()
    topic._spark.close()


SPARK = cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", getConf=dict, environment={})))


@pytest.fixture
def session_ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Consumers open without ZooKeeper, and without a source in Spark."""
    ended = threading.Event()

    @contextmanager
    def opened(_: object) -> Iterator[object]:
        yield SimpleNamespace(identity=SimpleNamespace(consumer="a", cluster="c", incarnation=1))
        ended.set()

    monkeypatch.setattr(consumer, "open_process", opened)
    monkeypatch.setattr("spark_apps.spark.session.check", lambda *_, **__: [])
    for name in ("register", "unregister"):
        monkeypatch.setattr(f"spark_apps.spark.source.{name}", lambda *_: None)
    return ended


def test_a_hanging_jvm_keeps_no_session(session_ended: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered consumer keeps the remaining partitions while its session lives."""
    answers = threading.Event()
    monkeypatch.setattr(consumer, "END_S", 0.1)
    monkeypatch.setattr("spark_apps.spark.source.unregister", lambda _: answers.wait(20))
    began = time.monotonic()
    with Consumer(SPARK, ConsumerSettings(SITE, "a")):
        pass
    assert session_ended.is_set()
    assert time.monotonic() - began < 5
    answers.set()


@pytest.mark.usefixtures("session_ended")
@pytest.mark.parametrize("given", [False, True], ids=["a temporary folder", "a given one"])
def test_a_consumer_removes_its_checkpoints(given: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    for folder in (temporary, own):
        folder.mkdir()
    monkeypatch.setattr(consumer, "tempfile", SimpleNamespace(mkdtemp=lambda **_: str(temporary)))
    how = SparkSettings(checkpoints=str(own) if given else "")
    with Consumer(SPARK, ConsumerSettings(SITE, "a"), how) as made:
        (made._checkpoints / "orders" / "1").mkdir(parents=True)
    assert temporary.exists() is given
    assert [one.name for one in own.rglob("*")] == (["c", "a"] if given else [])


def test_a_topic_that_appears_while_the_jvm_hangs_does_not_hang_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging agent would notice no missing read, and keep its partitions for ever."""
    answers, cores = threading.Event(), list[int]()

    class Context:
        hung = False

        @property
        def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
            assert not self.hung or answers.wait(20)
            return 8

    def make_runner(*_: object, pacing: Pacing, **__: object) -> object:
        cores.append(pacing.parallelism)
        return SimpleNamespace(topic="")

    monkeypatch.setattr(consumer, "END_S", 0.2)
    monkeypatch.setattr(consumer, "make_runner", make_runner)
    monkeypatch.setattr(consumer, "TopicQuery", lambda *_: None)
    context = Context()
    made = Consumer(cast(Any, SimpleNamespace(sparkContext=context)), ConsumerSettings(SITE, "a"))
    made.pipeline(build=cast(Any, "build"), default=True)
    made._process = cast(Any, SimpleNamespace(settings=ConsumerSettings(SITE, "a")))
    made._server = cast(Any, SimpleNamespace(serve=lambda *_: None))
    made.appeared("orders", cast(Any, None))
    context.hung, began = True, time.monotonic()
    made.appeared("payments", cast(Any, None))
    made.appeared("clicks", cast(Any, None))
    assert time.monotonic() - began < 5
    assert cores == [8, 8, 8], "what Spark said last"
    answers.set()


def test_a_query_that_lost_records_starts_again_without_their_partition() -> None:
    started, topic, runner = outcome(LOST, opened=True)
    assert (started, topic.problem) == (1 + START_ATTEMPTS * 2, "")
    assert runner.lost == [(1, "offsets 1 to 3 are gone")] * START_ATTEMPTS * 2


@pytest.mark.parametrize("partition", ["9" * 5_000, "9999999999", "01"], ids=["5,000 digits", "too large", "odd"])
def test_a_text_that_names_no_partition_tells_of_no_lost_records(partition: str) -> None:
    """The text of an error comes from an executor, or from a pipeline of the site."""
    text = f"DataLost: topic orders, partition {partition}, planned 1 to 8: gone; set failOnDataLoss=false to go on"
    assert lost_records(text) is None


def test_nothing_is_given_back_while_tasks_of_the_failed_query_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_query, "STOP_TIMEOUT_S", 0.05)
    tasks, runner = [1], Runner(opened=True)
    started: list[int] = []

    def start(attempt: int) -> Any:
        started.append(attempt)
        return Ended(LOST)

    topic = TopicQuery(cast(Any, runner), start, lambda _: tasks[0])
    topic._thread.join()
    topic.check()
    topic._thread.join(0.5)
    assert (started, runner.lost, runner.failed) == ([1], [], [])
    assert runner.said[0] == "the query has ended and its tasks have not: another one starts after them"
    assert not topic.end(), "they may still write"
    tasks[0] = 0
    assert topic.end()


def test_a_consumer_that_cannot_read_a_test_batch_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise Refused("cannot read a test batch")

    monkeypatch.setattr(consumer, "warm_up", refuse)
    made = Consumer(cast(Any, None), ConsumerSettings(SITE, "a"))
    made.pipeline("orders", cast(Any, "build"))
    quiet = {"wants": lambda _: None, "leave": lambda _=None: None}
    made._process = cast(Any, SimpleNamespace(**quiet, run=lambda _: pytest.fail("it has registered")))
    with pytest.raises(Refused, match="cannot read a test batch"):
        made.run()


def rehearsed_topics(kafka: FakeKafka, *topics: str) -> list[tuple[str, int]]:
    """The topic and the record's end of each rehearsal of a consumer with a pipeline for `orders` and another default."""
    made = Consumer(cast(Any, None), ConsumerSettings(SITE, "a"))
    made.pipeline("orders", cast(Any, "build"))
    made.pipeline(default=True, build=cast(Any, "other"))
    node = TopicNode("k:9092", "g", 1, "g1", "id-1", initial_partitions=1)
    process = SimpleNamespace(
        topics=lambda among: ((topic, node) for topic in topics if among(topic)), connect=lambda _: kafka.offsets("g")
    )
    return [(one.topic, one.record.end) for one in made._rehearsals(cast(Any, process))]


def test_each_pipeline_is_rehearsed_with_a_topic_that_has_a_record() -> None:
    kafka = FakeKafka()
    for topic in ("orders", "empty", "denied", "full", "later"):
        kafka.create_topic(topic, 1)
    kafka.append("full", 0, 5)
    kafka.denied.add("denied")
    names = ("empty", "denied", "full", "later", "orders")
    assert rehearsed_topics(kafka, *names) == [("orders", 0), ("full", 5)]
    assert rehearsed_topics(kafka, "orders") == [("orders", 0)]
    assert rehearsed_topics(kafka, *("empty",) * TOPICS_TRIED, "full") == [("empty", 0)]
    kafka.down = True
    assert rehearsed_topics(kafka, *names) == []


NESTED = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/spark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/spark_apps/records/reader.py", line 19, in read
    raise ReadFailed(text)
spark_apps.errors.ReadFailed: topic orders cannot be read: the broker is gone

=== Streaming Query ===
Identifier: [id = b731b029]
"""
LOST = f"Traceback (most recent call last):\nspark_apps.errors.DataLost: {DataLost('orders', 1, range(1, 9), 'offsets 1 to 3 are gone')}"
IN_THE_SOURCE = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when latestOffset: Traceback (most recent call last):
  File "/source.py", line 15, in latestOffset
    client.latest(start)
ValueError
 SQLSTATE: 38000
"""


FROM_THE_JVM = """An error occurred while calling o243.select.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.X
Caused by: java.lang.RuntimeException: wrapped
\tSuppressed: java.lang.Exception: not it
\tCaused by: java.lang.Exception: not it either
Caused by: java.sql.SQLException: no table orders
\t... 12 more
"""
BY_PYTHON = (
    f"[STREAM_FAILED] Query: Traceback (most recent call last):\n  File x\npy4j.protocol.Py4JJavaError: {FROM_THE_JVM}"
)
IN_A_TASK = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 "
    "(TID 1) (localhost executor driver): {}\n\tat org.apache.spark.X"
)
BY_THE_READER = IN_A_TASK.format("java.io.IOException: DataLost: topic orders")
BY_A_PIPELINE = IN_A_TASK.format("java.lang.RuntimeException: DataLost: topic orders")
WITHOUT_A_CAUSE = FROM_THE_JVM.partition("Caused by")[0]


@pytest.mark.parametrize(
    ("why", "says"),
    [
        pytest.param(FROM_THE_JVM, "SQLException: no table orders", id="in the JVM"),
        pytest.param(BY_PYTHON, "SQLException: no table orders", id="in the JVM, by Python"),
        pytest.param(BY_THE_READER, "DataLost: topic orders", id="in a task, by the reader"),
        pytest.param(BY_A_PIPELINE, "RuntimeException: DataLost: topic orders", id="in a task, by what a record says"),
        pytest.param(
            WITHOUT_A_CAUSE, "SparkException: Job aborted due to stage failure", id="in the JVM, without a cause"
        ),
        pytest.param("e" * 2_000, "e" * 997 + "...", id="very long"),
        pytest.param(NESTED, "ReadFailed: topic orders cannot be read: the broker is gone", id="on an executor"),
        pytest.param(IN_THE_SOURCE, "ValueError", id="in the source"),
        pytest.param("\n[STREAM_FAILED] the query\nhas failed", "[STREAM_FAILED] the query", id="in Spark"),
        pytest.param("", "RuntimeError", id="without a word"),
    ],
)
def test_what_ended_a_query_is_said_by_its_deepest_cause(why: str, says: str) -> None:
    assert outcome(why, opened=True)[2].failed[0] == says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"pattern": "("}, "is no pattern of topics: missing"), ({}, "one of"), ({"name": "a", "pattern": "b"}, "one of")],
)
def test_a_pipeline_that_cannot_be_is_refused(arguments: dict[str, str], says: str) -> None:
    with pytest.raises(Refused, match=says):
        Consumer(cast(Any, None), ConsumerSettings(SITE, "a")).pipeline(build=cast(Any, "b"), **cast(Any, arguments))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "a"}, "topic a has a pipeline already"),
        ({"pattern": "a.*"}, r"pattern a\.\* has a pipeline already"),
        ({"default": True}, "default has a pipeline already"),
    ],
)
def test_a_second_pipeline_that_nothing_would_reach_is_refused(arguments: dict[str, Any], says: str) -> None:
    made = Consumer(cast(Any, None), ConsumerSettings(SITE, "a"))
    made.pipeline(build=cast(Any, "b"), **arguments)
    with pytest.raises(Refused, match=f"the {says}; write both outputs in one function"):
        made.pipeline(build=cast(Any, "c"), **arguments)
    made.pipeline("b", cast(Any, "d"))


def served(topics: tuple[str, ...], pipelines: Sequence[dict[str, Any]], spark_ui: str | None = None) -> list[Any]:
    """Calls of a consumer before the registration: topics, then Spark UI and application."""
    context = SimpleNamespace(uiWebUrl=spark_ui, applicationId="local-17")
    made = Consumer(cast(Any, SimpleNamespace(sparkContext=context)), ConsumerSettings(SITE, "a", topics))
    for one in pipelines:
        made.pipeline(build=cast(Any, "b"), **one)
    seen: list[Any] = []
    process = SimpleNamespace(run=lambda _: 0, wants=seen.append, works_in=lambda *said: seen.append(said))
    made._how = SparkSettings(warm_up=False)
    made._serve(cast(Any, process))
    return seen


def registers(topics: tuple[str, ...], *pipelines: dict[str, Any]) -> tuple[str, ...]:
    return cast("tuple[str, ...]", served(topics, pipelines)[0])


ORDERS, CLICKS, OTHERS = {"name": "eu.orders"}, {"pattern": "clicks-.*"}, {"default": True}


@pytest.mark.parametrize(
    ("topics", "pipelines", "expected"),
    [
        pytest.param((), (ORDERS,), (r"eu\.orders",), id="what its pipelines are for"),
        pytest.param((), (ORDERS, CLICKS), (r"eu\.orders", "clicks-.*"), id="also by a pattern"),
        pytest.param((), (ORDERS, OTHERS), (), id="any topic, by a default"),
        pytest.param(("a", "b.*"), (OTHERS,), ("a", "b.*"), id="what it is limited to, by a default"),
        pytest.param(("eu.*",), (ORDERS, {"name": "us"}), (r"eu\.orders",), id="a name within a limit"),
        pytest.param(("clicks-eu",), (ORDERS, CLICKS), ("clicks-eu",), id="a limit within a pattern"),
        pytest.param(("c.*",), (ORDERS, CLICKS), ("c.*",), id="a limit beside a pattern, as it is"),
    ],
)
def test_a_consumer_registers_for_what_its_pipelines_match(
    topics: tuple[str, ...], pipelines: tuple[dict[str, Any], ...], expected: tuple[str, ...]
) -> None:
    assert registers(topics, *pipelines) == expected


@pytest.mark.parametrize(
    ("topics", "pipelines", "says"),
    [
        pytest.param((), (), "no pipeline is given", id="nothing to read"),
        pytest.param(
            ("orders", "clicks"), ({"name": "orders"},), "--topics has 'clicks', but no pipeline", id="a name"
        ),
        pytest.param(("eu-.*",), ({"name": "orders"},), "--topics has 'eu-.*', but no pipeline", id="a pattern"),
        pytest.param((), tuple({"pattern": f"{n}.*"} for n in range(40)), "only the first 32 patterns", id="too many"),
    ],
)
def test_a_topic_without_a_pipeline_is_refused_at_the_start(
    topics: tuple[str, ...], pipelines: tuple[dict[str, Any], ...], says: str
) -> None:
    with pytest.raises(Refused, match=says):
        registers(topics, *pipelines)


class Plan:
    """A logical plan: one streaming operator."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def isStreaming(self) -> bool:  # noqa: N802 (Spark's name)
        return True

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getSimpleName=lambda: self._operator)

    def children(self) -> Any:
        return SimpleNamespace(size=lambda: 0)


class Writer:
    """A DataStreamWriter with recorded calls; the query has one operator."""

    def __init__(self, told: dict[str, Any], operator: str) -> None:
        self._told = told
        self._df = SimpleNamespace(
            _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: Plan(operator)))
        )

    def option(self, name: str, value: str) -> "Writer":
        self._told[name] = value
        return self

    def queryName(self, name: str) -> "Writer":  # noqa: N802
        self._told["name"] = name
        return self


class Session:
    """The part of a SparkSession for the start of a query."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.sparkContext = SimpleNamespace(addJobTag=lambda tag: told.update(tag=tag))


HOOKS = Hooks(ConsumerRebalanceListener())


def query_of(operator: str, monkeypatch: pytest.MonkeyPatch, **how: Any) -> dict[str, Any]:
    """Calls of Spark and of the topic's ownership for a query with this operator."""
    told: dict[str, Any] = {}

    def build(stream: object, settings: object) -> Any:
        told["built"] = (stream, settings)
        return Writer(told, operator)

    def load(_: object, **options: str) -> object:
        told["options"] = options
        return STREAM

    monkeypatch.setattr(source, "load", load)
    monkeypatch.setattr(outputs, "check_writer", lambda _: None)
    monkeypatch.setattr(progress, "start", lambda writer: told.update(started=isinstance(writer, Writer)))
    settings = SparkSettings(options={"failOnDataLoss": "false"}, pipeline={"database": "d"}, hooks=HOOKS, **how)
    made = Consumer(cast(Any, Session(told)), ConsumerSettings(SITE, "a"), settings)
    runner = SimpleNamespace(topic="orders", agree=lambda *terms: told.update(agreed=terms))
    made._query(cast(Any, runner), cast(Any, build), 1)
    return told


def test_a_query_has_the_topics_name_and_agrees_on_delivery_and_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    assert query_of("Project", monkeypatch) == {
        "tag": "orders",
        "options": {"includeAssignment": "true", "failOnDataLoss": "false", "subscribe": "orders"},
        "built": (STREAM, {"database": "d"}),
        "agreed": (Delivery.AT_LEAST_ONCE, None, HOOKS),
        "checkpointLocation": "orders/1",
        "name": "orders",
        "started": True,
    }


def test_a_query_with_state_is_not_started_unless_its_state_may_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=r"keeps state between batches \(an aggregation\)"):
        query_of("Aggregate", monkeypatch)
    assert query_of("Aggregate", monkeypatch, state_stays_behind=True)["started"]
