"""The sample: turns order events in JSON into rows, and into revenue per product and minute. Keeps malformed events.

An event: `{"order_id": "A-17", "product": "tea", "quantity": 2, "price": "3.50", "ordered_at":
"2026-11-21T08:15:30Z"}`. Each batch goes into the database in one transaction. An event's key is its place in Kafka,
and only new events count towards the revenue, so processing a batch again changes nothing.
"""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery import Delivery
from spark_apps.delivery.database import KEY, Cursor, Database, RowSink, borrowed
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.lineage import Dataset, table_dataset, writes_to
from spark_apps.pipelines import AtMostOnce, ExactlyOnce, Output, delivery_of, setting
from spark_apps.pipelines.json_records import document, lines
from spark_apps.releases import arrow_table, is_text, valid_text

EVENT = "order_id STRING, product STRING, quantity INT, price STRING, ordered_at STRING"
PRICE = "try_cast(event.price AS DECIMAL(12, 2))"
_TIME = "try_cast(event.ordered_at AS TIMESTAMP)"
ORDERED_AT = f"if(year({_TIME}) BETWEEN 1 AND 9999, {_TIME}, NULL)"
"""The event's time, if Spark can move it to UTC: not its very first and last times."""
DATABASE = "sqlite:///build/orders.sqlite"
MAX_PRODUCT_CHARS = 200
"""Maximum length of a product, which is a key of `revenue`.

PostgreSQL refuses keys of more than 2,704 bytes, so the batch would fail again and again.
"""
MAX_QUANTITY = 10_000
MAX_PRICE = 1_000_000
"""Maximum price. With higher prices, a thousand orders in a minute could exceed BIGINT, and block their batch."""
DEAD_LETTER_CHARS = 4_000

LINE = "line"
_KEYS = {False: KEY, True: {**KEY, LINE: "INTEGER"}}
_SUFFIX = {False: "", True: "_by_line"}
"""Suffix of the tables for records with an event per line, whose key includes the line."""
_EVENT_COLUMNS = {
    "order_id": "TEXT",
    "product": "TEXT",
    "quantity": "INTEGER",
    "amount_cents": "BIGINT",
    "minute": "TEXT",
    "written_by": "TEXT",
}
ORDERS = {by_line: RowSink(f"orders{_SUFFIX[by_line]}", _EVENT_COLUMNS, key=key) for by_line, key in _KEYS.items()}
DEAD_LETTERS = {
    by_line: RowSink(f"dead_letters{_SUFFIX[by_line]}", {"problem": "TEXT", "value": "TEXT"}, key=key)
    for by_line, key in _KEYS.items()
}
CREATE_REVENUE = """
CREATE TABLE IF NOT EXISTS revenue (
    product TEXT, minute TEXT, orders BIGINT, amount_cents BIGINT, PRIMARY KEY (product, minute)
)"""
CREATE_INDEX = 'CREATE INDEX IF NOT EXISTS {table}_written_by ON {table} ("written_by")'
# Only the rows of this batch, since older rows have another mark. Sorted, because two consumers could deadlock.
ADD_REVENUE = """
INSERT INTO revenue (product, minute, orders, amount_cents)
SELECT product, minute, COUNT(*), SUM(amount_cents) FROM {table} WHERE written_by = ? GROUP BY product, minute
ORDER BY product, minute
ON CONFLICT (product, minute) DO UPDATE SET
    orders = revenue.orders + excluded.orders, amount_cents = revenue.amount_cents + excluded.amount_cents
"""


def _outputs(settings: Mapping[str, str]) -> list[Dataset]:
    url = setting(settings, "database", DATABASE)
    by_line = _by_line(settings)
    return [table_dataset(url, table) for table in (ORDERS[by_line].table, DEAD_LETTERS[by_line].table, "revenue")]


@writes_to(_outputs)
def build(orders: DataFrame, settings: Mapping[str, str]) -> Output:
    """Read `orders` and write the tables, by these settings.

    - `database` (default `sqlite:///build/orders.sqlite`): see `delivery.database`.
    - `delivery`: `at-least-once` (the default), `at-most-once` or `exactly-once`.
    - `records`: `document` (the default; a record is one event), or `lines` (each line of a record is an event; the
      tables are `..._by_line`).
    """
    url = setting(settings, "database", DATABASE)
    database, delivery, by_line = Database(url), delivery_of(settings), _by_line(settings)
    rows, prepared = parse(orders, by_line=by_line), partial(prepare, by_line=by_line)
    if delivery is Delivery.EXACTLY_ONCE:
        return ExactlyOnce(rows, DatabaseSink(database, prepared, store))
    writer = rows.writeStream.foreachBatch(_writing(url, prepared))
    return AtMostOnce(writer) if delivery is Delivery.AT_MOST_ONCE else writer


def _by_line(settings: Mapping[str, str]) -> bool:
    kinds = {"document": False, "lines": True}
    word = setting(settings, "records", "document")
    if word not in kinds:
        raise Refused(f"the setting records is '{word}'; give {' or '.join(kinds)}")
    return kinds[word]


def _writing(url: str, prepare: Callable[[Cursor], None]) -> Callable[[DataFrame, int], None]:
    prepared: list[bool] = []

    def write(batch: DataFrame, _: int) -> None:
        rows = arrow_table(batch)
        with borrowed(url) as database:
            if not prepared:
                # separate, since other starting consumers wait for its locks
                with database.transaction() as cursor:
                    prepare(cursor)
                prepared.append(True)
            with database.transaction() as cursor:
                store(cursor, rows)

    return write


def parse(orders: DataFrame, *, by_line: bool = False) -> DataFrame:
    """Return one row per event. `problem`: the reason if the event is malformed.

    `by_line`: each line of a record is an event; otherwise a record is an event.
    """
    # Records may hold any bytes, but the driver has to read valid text.
    text = valid_text(F.col("value"))
    key = [*_KEYS[by_line]]
    valid = is_text(F.col("value")).alias("valid")
    if by_line:
        texts = orders.select(*KEY, valid, F.posexplode_outer(lines(text)).alias(LINE, "value"))
        texts = texts.withColumn(LINE, F.coalesce(LINE, F.lit(0)))  # a record without lines
    else:
        texts = orders.select(*KEY, valid, text.alias("value"))
    events = texts.select(*key, "valid", "value", document(F.col("value"), EVENT).alias("read"))
    read = events.select(
        *key, "valid", "value", F.col("read.problem").alias("unread"), F.col("read.document").alias("event")
    )
    ordered_at = F.to_utc_timestamp(F.expr(ORDERED_AT), F.current_timezone())  # minutes are always in UTC
    return read.select(
        *key,
        "value",
        _problem().alias("problem"),
        F.trim("event.order_id").alias("order_id"),
        F.lower(F.trim("event.product")).alias("product"),
        F.col("event.quantity").alias("quantity"),
        F.expr(f"try_cast({PRICE} * event.quantity * 100 AS LONG)").alias("amount_cents"),
        F.date_format(ordered_at, "yyyy-MM-dd HH:mm").alias("minute"),
    )


def _problem() -> Column:
    """Return the first problem of the event, or null."""
    checks: tuple[tuple[Column, Column | str], ...] = (
        (F.col("unread").isNotNull(), F.col("unread")),
        (~F.col("valid"), "not UTF-8"),
        (F.coalesce(F.trim("event.order_id"), F.lit("")) == "", "order_id is missing"),
        (F.coalesce(F.trim("event.product"), F.lit("")) == "", "product is missing"),
        (F.length("event.product") > MAX_PRODUCT_CHARS, "product is longer than a name"),
        # PostgreSQL refuses a NUL in text, so the batch would fail again and again.
        (F.concat("event.order_id", "event.product").contains("\x00"), "order_id or product holds a NUL"),
        (~F.coalesce(F.col("event.quantity").between(1, MAX_QUANTITY), F.lit(False)), "quantity is out of range"),
        (~F.coalesce(F.expr(PRICE) >= 0, F.lit(False)), "price is not an amount"),
        (F.expr(PRICE) > MAX_PRICE, "price is out of range"),
        (F.expr(ORDERED_AT).isNull(), "ordered_at is not a time"),
    )
    return F.coalesce(*[F.when(wrong, problem) for wrong, problem in checks])


def prepare(cursor: Cursor, *, by_line: bool = False) -> None:
    """Create the tables if missing."""
    cursor.exclusively("orders")  # consumers that start at the same time would both create the tables
    ORDERS[by_line].prepare(cursor)
    DEAD_LETTERS[by_line].prepare(cursor)
    cursor.execute(CREATE_REVENUE)
    cursor.execute(CREATE_INDEX.format(table=ORDERS[by_line].table))


def store(cursor: Cursor, rows: pa.Table) -> None:
    """Write one parsed batch. A record that was written before changes nothing."""
    mark = uuid.uuid4().hex
    by_line = LINE in rows.column_names
    parsed: list[dict[str, Any]] = rows.to_pylist()
    keyed = [([row[name] for name in _KEYS[by_line]], row) for row in parsed]
    good = [[*key, *_event(row), mark] for key, row in keyed if row["problem"] is None]
    bad = [[*key, row["problem"], _shortened(row["value"])] for key, row in keyed if row["problem"] is not None]
    ORDERS[by_line].write(cursor, good)
    DEAD_LETTERS[by_line].write(cursor, bad)
    cursor.execute(ADD_REVENUE.format(table=ORDERS[by_line].table), [mark])


def _event(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in ("order_id", "product", "quantity", "amount_cents", "minute")]


def _shortened(value: str | None) -> str | None:
    return None if value is None else value.replace("\x00", "")[:DEAD_LETTER_CHARS]  # PostgreSQL refuses NUL in text
