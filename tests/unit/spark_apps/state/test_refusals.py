"""What a stateful pipeline may not ask for, each with a sentence and a code."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.state import StateRefused
from spark_apps.state.codec import codec_of
from spark_apps.state.stateful import Stateful, stateful_sink
from tests.stateful_bench import COUNT, ROWS, TIMED_ROWS, TOTALS, Counting


def sink_of() -> DatabaseSink:
    return DatabaseSink(Database("sqlite:///unused.sqlite"), lambda _: None, lambda *_: None)


def stateful(rows: T.StructType = ROWS, processor: Any = None, sink: Any = None, **how: Any) -> Stateful:
    return Stateful(
        cast(Any, SimpleNamespace(schema=rows)), processor or Counting(), sink or sink_of(), **{"output": TOTALS, **how}
    )


class Declaring(Counting):
    """Declares what a test wants."""

    def __init__(
        self, name: str = "count", schema: Any = COUNT, ttl_ms: int | None = None, kind: str = "Value"
    ) -> None:
        self.given = (name, schema, ttl_ms)
        self.kind = kind

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        name, schema, ttl_ms = self.given
        getattr(handle, f"get{self.kind}State")(name, schema, ttl_ms)


class Unpicklable(Counting):
    def __init__(self) -> None:
        self.lock = __import__("threading").Lock()


def rows_with(name: str, kind: T.DataType) -> T.StructType:
    return T.StructType([*ROWS.fields, T.StructField(name, kind)])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (stateful(sink=object()), "the sink of a stateful pipeline is a object: state is exactly once"),
        (stateful(processor=object()), "the processor is a object"),
        (stateful(processor=Unpicklable()), "the processor cannot be pickled"),
        (stateful(T.StructType(ROWS.fields[:2])), "the rows have no column 'offset' \\(they have key, partition\\)"),
        (stateful(by=()), "no grouping column is named"),
        (stateful(by=("product",)), "the rows have no column 'product'"),
        (stateful(by=("amount",)), "the grouping columns amount do not contain Kafka's key"),
        (
            stateful(rows_with("price", T.DoubleType()), by=("key", "price")),
            "the grouping column price has the type double, by which state cannot be found",
        ),
        (stateful(time_mode="Sometimes"), "the time mode is 'Sometimes'; give None, ProcessingTime, EventTime"),
        (stateful(time_mode="EventTime"), "needs one column of times with a watermark, and the rows have 0"),
        (stateful(output=""), "the schema of the processor's rows is not given"),
        (stateful(processor=Declaring("$mine")), "state \\$mine of operator state has a reserved name"),
        (stateful(processor=Declaring(kind="List")), "state count of operator state is declared twice"),
        (stateful(processor=Declaring("x", COUNT, 5)), "has a TTL of 5 ms in the time mode None"),
        (stateful(processor=Declaring("x", COUNT, 0), time_mode="ProcessingTime"), "has a TTL of 0 ms"),
        (
            stateful(processor=Declaring("x", T.StructType().add("v", T.VariantType()))),
            "column v of state x of operator state has the type variant, which state cannot hold",
        ),
        (stateful(processor=Declaring("x", T.LongType())), "has the schema LongType"),
    ],
)
def test_what_would_give_wrong_results_is_refused(given: Stateful, problem: str) -> None:
    with pytest.raises(StateRefused, match=problem) as caught:
        stateful_sink(given)
    assert caught.value.told.startswith("KPC-066: ")


def test_columns_that_determine_the_partition_may_be_grouped_by() -> None:
    stateful_sink(stateful(by=("amount",), determines_partition=True))
    stateful_sink(stateful(TIMED_ROWS, time_mode="eventtime"))


def test_state_outside_of_a_key_is_refused() -> None:
    class Early(Counting):
        def init(self, handle: StatefulProcessorHandle) -> None:
            super().init(handle)
            self.count.get()

    with pytest.raises(StateRefused, match="uses state outside of a key"):
        stateful_sink(stateful(processor=Early()))


def test_a_codec_names_the_column_of_a_wrong_schema() -> None:
    with pytest.raises(StateRefused, match="the schema"):
        codec_of(cast(Any, T.LongType()), "state x")


def test_a_spark_without_stateful_processors_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_apps.state.stateful.STATEFUL", False)
    monkeypatch.setattr("pyspark.__version__", "3.5.7")
    with pytest.raises(
        StateRefused, match=r"^Spark 3\.5\.7 has no stateful processors; use Spark 4\.0 or later for state$"
    ):
        stateful_sink(stateful())
