"""The sample pipelines on records of any shape, under Spark's ANSI mode: none of them ends a query."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from coordinator_tasks.core.model import Token
from spark_apps.dead_letters import OnError
from spark_apps.delivery import SinkStep, Writer
from spark_apps.pipelines import audit, customers, orders, schema_registry
from spark_apps.pipelines.json_records import MORE, NO_DOCUMENT
from spark_apps.state.stateful import stateful_sink
from tests.integration.spark_submit import local_spark

pytestmark = pytest.mark.integration
ORDER = {"order_id": "1", "product": "tea", "quantity": 2, "price": "3.50", "ordered_at": "2026-11-21T08:15:30Z"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark(
        "local[1]", {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "America/New_York"}
    ) as one:
        yield one


def records(spark: SparkSession, *values: bytes | None) -> DataFrame:
    """A stream's columns, with these values."""
    rows = [("orders", 0, offset, value, "a", 7, 3) for offset, value in enumerate(values)]
    columns = "topic STRING, partition INT, offset LONG, value BINARY, consumer STRING, incarnation LONG, epoch LONG"
    return spark.createDataFrame(rows, columns).withColumn("timestamp", F.timestamp_seconds(F.lit(1)))


def order(**changed: object) -> bytes:
    return json.dumps({**ORDER, **changed}).encode()


def test_an_order_that_cannot_be_counted_is_a_dead_letter(spark: SparkSession) -> None:
    bad = {
        None: "no value",
        b"\xff\x00": NO_DOCUMENT,
        order(quantity="many"): NO_DOCUMENT,
        order(quantity=2**31): NO_DOCUMENT,
        order(order_id="?").replace(b"?", b"\xff"): "not UTF-8",
        order(quantity=2**31 - 1, price="9999999999.99"): "quantity is out of range",
        order(product="t" * 201): "product is longer than a name",
        order(order_id=None): "order_id is missing",
        order(order_id="A\x003"): "order_id or product holds a NUL",
        order(price="1e400"): "price is not an amount",
        order(price="9999999999.99"): "price is out of range",
        order(ordered_at="noon"): "ordered_at is not a time",
        order(ordered_at="+294247-01-10T04:00:54.775807Z"): "ordered_at is not a time",
    }
    good, *others = orders.parse(records(spark, order(), *bad)).toArrow().to_pylist()
    assert (good["problem"], good["amount_cents"], good["minute"]) == (None, 700, "2026-11-21 08:15")
    assert [one["problem"] for one in others] == list(bad.values())


def test_a_record_with_more_than_one_document_is_refused_as_a_whole(spark: SparkSession) -> None:
    behind = [
        order(),
        b"\n" + order(),
        b"," + order(),
        b" x",
        b"}",
        b"]",
        b'],"x":[' + order(),
        b"],[" + order(),
        b"\0",
        b"null",
    ]
    values = [order() + more for more in behind]
    whole, *found = orders.parse(records(spark, order() + b" \r\n\t", *values)).toArrow().to_pylist()
    assert whole["problem"] is None
    assert [(one["problem"], one["value"]) for one in found] == [(MORE, value.decode()) for value in values]
    audited = audit.processed(records(spark, *(b'{"sequence": 5}' + more for more in behind))).toArrow().to_pylist()
    assert [one["sequence"] for one in audited] == [None] * len(behind)


def test_a_record_of_lines_is_split_only_where_that_is_asked_for(spark: SparkSession) -> None:
    values = (order() + b"\r\n\n" + order(product=" ") + b"\n" + order() + order() + b"\n", b"", None)
    found = orders.parse(records(spark, *values), by_line=True).toArrow().to_pylist()
    assert [(one["offset"], one["line"], one["problem"]) for one in found] == [
        (0, 0, None),
        (0, 1, "product is missing"),
        (0, 2, MORE),
        (1, 0, "no value"),
        (2, 0, "no value"),
    ]


def test_the_id_of_a_schema_may_be_any_four_bytes(spark: SparkSession) -> None:
    values = b"\0\0\0\x01\x2cab", b"\0\xff\xff\xff\xffab", b"\0", b"", None
    found = records(spark, *values).select(schema_registry.schema_id("value").alias("id")).toArrow().to_pylist()
    assert [row["id"] for row in found] == [300, 2**32 - 1, None, None, None]


ORDERED = {"order_id": "A-17", "quantity": 2, "amount_cents": 700, "ordered_at": "2026-11-21T08:15:30Z"}


def ordered(customer: str, minutes: int, quantity: int = 2) -> tuple[str, bytes]:
    event = {**ORDERED, "quantity": quantity, "ordered_at": f"2026-11-21T08:{minutes:02}:30Z"}
    return customer, json.dumps(event).encode()


def test_what_customers_have_ordered_is_state(spark: SparkSession, tmp_path: Path) -> None:
    given = [ordered("ada", 15), ordered("bob", 16), ("ada", b"no JSON"), ordered("ada", 25, 3), ordered("eve", 55)]
    rows = records(spark, *(value for _, value in given))
    keys = F.array(*[F.lit(key.encode()) for key, _ in given])
    stream = rows.withColumn("key", F.element_at(keys, F.col("offset").cast("int") + 1))
    made = customers.build(stream, {"database": f"sqlite:///{tmp_path}/customers.sqlite"})
    sink, writer, token = stateful_sink(made), Writer("c", "orders", "id", "a"), Token(1, 1, "g")
    sink.claim(writer, {0: token}, {})
    rows = made.rows.toArrow()
    assert rows["problem"].to_pylist() == [None, None, "not a JSON document of this shape", None, None]
    good = rows.filter(pc.is_null(rows["problem"])).drop_columns(["problem"])
    sink.write(writer, {0: SinkStep(token, 0, len(given))}, good)
    sink.close()
    with closing(sqlite3.connect(tmp_path / "customers.sqlite")) as found:
        totals = found.execute(
            "SELECT customer, count, quantity, amount_cents FROM customer_totals ORDER BY 1"
        ).fetchall()
    assert made.on_error == OnError("dead-letter", problem_column="problem")
    assert totals == [("ada", 2, 5, 1400), ("bob", 1, 2, 700), ("eve", 1, 2, 700)]
