"""The sample with state: what each customer has ordered, in total or per ten minutes.

A record's key is the customer. The value is an event in JSON: `{"order_id": "A-17", "quantity": 2, "amount_cents": 700,
"ordered_at": "2026-11-21T08:15:30Z"}`. A record of another form becomes a dead letter.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from coordinator_tasks.core.errors import Refused
from spark_apps.dead_letters import Action, OnError
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.lineage import Dataset, table_dataset, writes_to
from spark_apps.pipelines import setting
from spark_apps.pipelines.json_records import document
from spark_apps.releases import valid_text
from spark_apps.state.handle import TimeMode
from spark_apps.state.processors import RunningTotals, TumblingWindows
from spark_apps.state.stateful import Stateful

DATABASE = "sqlite:///build/customers.sqlite"
SUMS = "quantity LONG, amount_cents LONG"
WINDOW_MS = 600_000
TABLES = {"totals": "customer_totals", "windows": "customer_windows"}
CREATE = {
    "totals": "CREATE TABLE IF NOT EXISTS customer_totals (customer TEXT PRIMARY KEY, {sums})",
    "windows": 'CREATE TABLE IF NOT EXISTS customer_windows (customer TEXT, "start" TEXT, "end" TEXT, {sums}, '
    'PRIMARY KEY (customer, "start"))',
}
KEYS = {"totals": ["customer"], "windows": ["customer", "start"]}
_SUMS = "count BIGINT, quantity BIGINT, amount_cents BIGINT"


def _outputs(settings: Mapping[str, str]) -> list[Dataset]:
    return [table_dataset(setting(settings, "database", DATABASE), TABLES[_kind(settings)])]


@writes_to(_outputs)
def build(orders: DataFrame, settings: Mapping[str, str]) -> Stateful:
    """Read the orders and write a table. Settings: `database`; `state`: `totals` (the default) or `windows`."""
    kind = _kind(settings)
    sink = sink_of(kind, setting(settings, "database", DATABASE))
    if kind == "windows":
        windows = TumblingWindows(WINDOW_MS, "ordered_at", SUMS, ["customer"])
        rows = parse(orders).withWatermark("ordered_at", "10 minutes")
        return _by_customer(rows, windows, sink, TimeMode.EVENT_TIME)
    return _by_customer(parse(orders), RunningTotals(SUMS, ["customer"]), sink, TimeMode.NONE)


def _by_customer(rows: DataFrame, processor: StatefulProcessor, sink: DatabaseSink, time_mode: TimeMode) -> Stateful:
    return Stateful(
        rows,
        processor,
        sink,
        by=["customer"],
        time_mode=time_mode,
        determines_partition=True,
        on_error=OnError(Action.DEAD_LETTER, problem_column="problem"),
    )


def parse(orders: DataFrame) -> DataFrame:
    """Return customer, sums, time and place of each event, or the reason why the record is no event."""
    read = document(F.col("value").cast("string"), "quantity INT, amount_cents LONG, ordered_at STRING")
    return orders.select(
        valid_text(F.col("key")).alias("customer"), "partition", "offset", read.alias("read")
    ).selectExpr(
        "customer",
        "partition",
        "offset",
        "read.document.quantity AS quantity",
        "read.document.amount_cents AS amount_cents",
        "try_cast(read.document.ordered_at AS TIMESTAMP) AS ordered_at",
        "read.problem AS problem",
    )


def sink_of(kind: str, url: str) -> DatabaseSink:
    """Return the sink of the table. A later row with the same key replaces the earlier row."""

    def prepare(cursor: Cursor) -> None:
        cursor.execute(CREATE[kind].format(sums=_SUMS))

    def store(cursor: Cursor, rows: pa.Table) -> None:
        cursor.replace(TABLES[kind], rows.column_names, KEYS[kind], [_values(row) for row in rows.to_pylist()])

    return DatabaseSink(Database(url), prepare, store)


def _values(row: Mapping[str, Any]) -> list[Any]:
    return [value.isoformat(" ") if hasattr(value, "isoformat") else value for value in row.values()]


def _kind(settings: Mapping[str, str]) -> str:
    kind = setting(settings, "state", "totals")
    if kind not in TABLES:
        raise Refused(f"the setting state is '{kind}'; give {' or '.join(TABLES)}")
    return kind
