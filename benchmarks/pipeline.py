"""A whole pipeline: JSON of orders parsed, summed up by product, and the sums added to totals in PostgreSQL.

    python -m benchmarks.pipeline [--records 3000000] [--rounds 3] [--json FILE]

Ours delivers exactly once: the sums and the positions are one transaction. Spark's tuned Kafka source writes the same sums
in `foreachBatch`, in one transaction with the batch's number, by which a repeated batch is left out: the usual way to
exactly once there. Both parse by the same strict expression, sum up on the executors, and end with the same totals, which
are compared. In turns, a process each, local[2]; the first batch is left out of "steady".
"""

import json
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks import source
from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, of_process, options, ranged, report, whole
from coordinator_tasks.devstack.embedded.jars import ensure_jars
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import ExactlyOnce
from spark_apps.pipelines.json_records import document
from spark_apps.pipelines.outputs import agreed_writer
from tests.integration.sole_owner import sole_owner
from tests.postgres_server import PostgresServer
from tests.spark_jars import CONNECTOR

SIDES = ("ours", "tuned")
TOPIC = "orders"
BATCHES = 12
PRODUCTS, VALUES = 500, 9_000
SHAPE = "order_id STRING, product STRING, quantity INT"
_CREATE = (
    "CREATE TABLE IF NOT EXISTS totals (product TEXT PRIMARY KEY, orders BIGINT NOT NULL, quantity BIGINT NOT NULL)"
)
_ADD = (
    "INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (product) DO UPDATE "
    "SET orders = totals.orders + excluded.orders, quantity = totals.quantity + excluded.quantity"
)


def prepare(cursor: Cursor) -> None:
    cursor.execute(_CREATE)


def add(cursor: Cursor, sums: pa.Table) -> None:
    """Add a batch's sums to the totals, in the order of the products: two writers never wait for each other in a circle."""
    whole_batch = sums.group_by("product").aggregate([("orders", "sum"), ("quantity", "sum")]).sort_by("product")
    names = ("product", "orders_sum", "quantity_sum")
    cursor.executemany(_ADD, list(zip(*(whole_batch[name].to_pylist() for name in names), strict=True)))


def parsed(stream: DataFrame) -> DataFrame:
    read = document(stream.value.cast("string"), SHAPE)
    return stream.select("partition", read.alias("read")).select(
        "partition", "read.document.product", "read.document.quantity"
    )


def summed(batch: DataFrame, *keys: str) -> DataFrame:
    return batch.groupBy(*keys, "product").agg(F.count("*").alias("orders"), F.sum("quantity").alias("quantity"))


def writer(stream: DataFrame, url: str, runner: TopicRunner | None) -> DataStreamWriter:
    if runner is not None:
        sink = DatabaseSink(Database(url), prepare, add)
        once = ExactlyOnce(parsed(stream), sink, each_batch=lambda batch: summed(batch, "partition"))
        return agreed_writer(runner, once, Hooks())
    database = Database(url)
    with database.transaction() as cursor:
        prepare(cursor)
        cursor.execute("CREATE TABLE batches (number BIGINT PRIMARY KEY)")

    def write(batch: DataFrame, number: int) -> None:
        sums = summed(batch).toArrow()
        with database.transaction() as cursor:
            cursor.execute("INSERT INTO batches VALUES (?)", (number,))
            add(cursor, sums)

    return parsed(stream).writeStream.foreachBatch(write)


def measure(side: str, servers: str, records: int, url: str) -> dict[str, float]:
    runner = sole_owner(servers, TOPIC, f"group-{uuid.uuid4()}") if side == "ours" else None
    limit = {"maxOffsetsPerTrigger": str(records // BATCHES)}
    with source.open_stream(side, servers, TOPIC, runner=runner, **limit) as stream:
        figures = source.run(writer(stream, url, runner), records, side)
    with Database(url).transaction() as cursor:
        ((orders, quantity),) = cursor.query("SELECT sum(orders), sum(quantity) FROM totals")
    assert (int(orders), int(quantity)) == (records, sum(order(number)["quantity"] for number in range(records)))
    return figures


def order(number: int) -> dict[str, Any]:
    """An order of about 150 bytes."""
    number %= VALUES
    return {
        "order_id": f"order-{number:08}",
        "product": f"product-{number * 7 % PRODUCTS:04}",
        "quantity": 1 + number % 9,
        "address": "Long Street 12, 12345 Somewhere, first floor, left door",
    }


def measured(records: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Side → the figures of each round."""
    ensure_jars(CONNECTOR)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(Path(folder)) as kafka:
        values = [json.dumps(order(number)).encode() for number in range(VALUES)]
        source.fill(kafka.bootstrap_servers, TOPIC, values, records)
        for number in range(rounds):
            for side in SIDES[:: 1 if number % 2 == 0 else -1]:
                with PostgresServer(as_it_comes=True) as server:
                    worker = ("--worker", side, kafka.bootstrap_servers, str(records), server.url)
                    found[side].append(of_process(side, "-m", "benchmarks.pipeline", *worker))
                print(f"round {number + 1}, {side}: {json.dumps(found[side][-1])}", file=sys.stderr)
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each side: medians, with the range of the records."""
    rates = {side: median(one["steady_per_s"] for one in runs) for side, runs in result["sides"].items()}
    rows = []
    for side, runs in result["sides"].items():
        rate = ranged([one["steady_per_s"] for one in runs])
        cpu, total = (f"{median(one[name] for one in runs):.2f}" for name in ("steady_cpu_us", "total_s"))
        ratio = f"{rates['ours'] / rates[side]:.2f}"
        rows.append([source.TITLES[side], rate, cpu, total, ratio])
    how = (in_rounds(result["rounds"]), f"{result['records']:,} records")
    titles = ("", "records/s after the first batch", "CPU, µs/record", "total, s", "ours / this")
    return f"{told(result, *how)}\n\n{grid(titles, rows)}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--records", type=whole, default=3_000_000)
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--worker", nargs=4, metavar=("SIDE", "SERVERS", "RECORDS", "URL"))
    given = parser.parse_args()
    if given.worker:
        side, servers, records, url = given.worker
        print(json.dumps(measure(side, servers, int(records), url)))
        return
    records = given.records // BATCHES * BATCHES
    with noted(rounds=given.rounds, records=records) as result:
        result["sides"] = measured(records, given.rounds)
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
