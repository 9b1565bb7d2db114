"""Which pipeline a topic's query is made of, and that one whose Python process was too slow to start is started again."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.wiring import Settings
from spark_apps import consumer, session
from spark_apps.agent.process import ConsumerSettings
from spark_apps.consumer import SLOW_START, START_ATTEMPTS, Consumer, SparkTopic


class Ended:
    """A query that is over."""

    isActive = False  # noqa: N815 (Spark's name)

    def __init__(self, why: str) -> None:
        self._why = why

    def exception(self) -> Exception:
        return RuntimeError(self._why)


class Runner:
    topic = "orders"

    def __init__(self, opened: bool) -> None:
        self.holder = SimpleNamespace(opened=opened)

    def edit(self, change: Any) -> Any:
        return change(self.holder)


@pytest.fixture(autouse=True)
def _check_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_S", -1.0)


def outcome(why: str, *, opened: bool) -> tuple[int, str]:
    """How often the query was started, and what is said in the end."""
    started: list[Ended] = []

    def start() -> Any:
        started.append(Ended(why))
        return started[-1]

    topic = SparkTopic(cast(Any, Runner(opened)), start)
    for _ in range(START_ATTEMPTS * 2):
        topic._thread.join()
        topic.check()
    return len(started), topic.check()


def test_a_slow_start_is_tried_again_and_then_given_up() -> None:
    assert outcome(SLOW_START, opened=False) == (START_ATTEMPTS, f"topic orders: the query has ended: {SLOW_START}")


@pytest.mark.parametrize(
    ("why", "opened"), [(SLOW_START, True), ("no such column", False)], ids=["a query that has read", "another failure"]
)
def test_anything_else_ends_the_consumer_at_once(why: str, opened: bool) -> None:
    assert outcome(why, opened=opened) == (1, f"topic orders: the query has ended: {why}")


NESTED = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/spark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/spark_apps/reader.py", line 19, in read
    raise DataLost(text)
spark_apps.errors.DataLost: topic orders, partition 0: offsets 1 to 3 are gone; set failOnDataLoss=false

=== Streaming Query ===
Identifier: [id = b731b029]
"""
IN_THE_SOURCE = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when latestOffset: Traceback (most recent call last):
  File "/source.py", line 15, in latestOffset
    client.latest(start)
ValueError
 SQLSTATE: 38000
"""


@pytest.mark.parametrize(
    ("why", "says"),
    [
        (NESTED, "DataLost: topic orders, partition 0: offsets 1 to 3 are gone; set failOnDataLoss=false"),
        (IN_THE_SOURCE, "ValueError"),
        ("\n[STREAM_FAILED] the query\nhas failed", "[STREAM_FAILED] the query"),
        ("", "RuntimeError"),
    ],
    ids=["on an executor", "in the source", "in Spark", "without a word"],
)
def test_what_ended_a_query_is_said_by_the_last_error_of_python(why: str, says: str) -> None:
    assert outcome(why, opened=True) == (1, f"topic orders: the query has ended: {says}")


def build_of(made: Consumer, topic: str) -> str:
    return next((str(one.build) for one in made._pipelines if one.matches(topic)), "")


def test_a_name_goes_before_a_pattern_and_that_before_the_default() -> None:
    site = Settings("c", "zk:2181", {"bootstrap.servers": "k:9092"})
    made = Consumer(cast(Any, None), ConsumerSettings(site, "a"))
    made.pipeline(build=cast(Any, "default"), default=True)
    made.pipeline(pattern="orders-.*", build=cast(Any, "pattern"))
    assert build_of(made, "clicks") == "default"
    made.pipeline("orders-eu", cast(Any, "name"))
    assert [build_of(made, topic) for topic in ("orders-eu", "orders-us", "orders")] == ["name", "pattern", "default"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"pattern": "("}, "is no regular expression"), ({}, "one of"), ({"name": "a", "pattern": "b"}, "one of")],
)
def test_a_pipeline_that_cannot_be_is_refused(arguments: dict[str, str], says: str) -> None:
    site = Settings("c", "zk:2181", {"bootstrap.servers": "k:9092"})
    with pytest.raises(Refused, match=says):
        Consumer(cast(Any, None), ConsumerSettings(site, "a")).pipeline(build=cast(Any, "b"), **cast(Any, arguments))


@pytest.mark.parametrize(("speculates", "declared"), [("true", True), ("false", False), (None, False)])
def test_a_session_that_speculates_is_taken_only_for_a_sink_that_is_declared(
    speculates: str | None, declared: bool
) -> None:
    settings = {} if speculates is None else {session.SPECULATION: speculates}
    session.check(cast(Any, SimpleNamespace(conf=settings)), idempotent_sink=declared)
    with pytest.raises(Refused, match="both attempts of a task would write"):
        session.check(cast(Any, SimpleNamespace(conf={session.SPECULATION: "true"})))
