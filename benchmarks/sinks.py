"""What exactly once costs at the sink: rows alone, keyed rows that may come twice, and rows with positions.

    .venv/bin/python benchmarks/sinks.py [--json]

Each way writes the same batches of 150-byte values from 12 partitions into a table of its own, in turns within one run;
the median of the rounds, in milliseconds per batch, from the Arrow table to the acknowledged commit. PostgreSQL runs on
this host with fsync as it comes; SQLite with synchronous=FULL.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

from coordinator_tasks.core.model import Token
from spark_apps.delivery import Step, Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from tests.postgres_server import PostgresServer

PARTITIONS = 12
ROUNDS = 15
SIZES = (120, 1_200, 24_000)
TOKEN = Token(1, 1, "g")
WRITER = Writer("c", "orders", "id", "a")
VALUE = "v" * 150

Batch = Callable[[int, int], None]


def rows_of(table: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset", "text")), strict=True)


def batch(size: int, number: int) -> pa.Table:
    each = size // PARTITIONS
    offsets = [number * each + n for n in range(each)] * PARTITIONS
    partitions = [p for p in range(PARTITIONS) for _ in range(each)]
    text = [VALUE] * len(offsets)
    return pa.table({"topic": ["orders"] * len(offsets), "partition": partitions, "offset": offsets, "text": text})


def plain(database: Database, table: str, write: Callable[[RowSink, Cursor, pa.Table], None]) -> Batch:
    sink = RowSink(table, {"text": "TEXT"})
    with database.transaction() as cursor:
        sink.prepare(cursor)

    def run(size: int, number: int) -> None:
        rows = batch(size, number)
        with database.transaction() as cursor:
            write(sink, cursor, rows)

    return run


def exactly_once(database: Database, table: str) -> Batch:
    rows = RowSink(table, {"text": "TEXT"})
    sink = DatabaseSink(database, rows.prepare, lambda cursor, found: rows.append(cursor, rows_of(found)))
    sink.claim(WRITER, dict.fromkeys(range(PARTITIONS), TOKEN), {})

    def run(size: int, number: int) -> None:
        each = size // PARTITIONS
        step = Step(TOKEN, number * each, (number + 1) * each)
        refused = sink.write(WRITER, dict.fromkeys(range(PARTITIONS), step), batch(size, number))
        assert not refused

    return run


def measure(url: str) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for size in SIZES:
        ways = {
            "rows alone": plain(Database(url), f"alone{size}", lambda s, c, t: s.append(c, rows_of(t))),
            "keyed rows": plain(Database(url), f"keyed{size}", lambda s, c, t: s.write(c, rows_of(t))),
            "rows and positions": exactly_once(Database(url), f"once{size}"),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            for name, run in ways.items():
                began = time.perf_counter()
                run(size, number)
                times[name].append((time.perf_counter() - began) * 1000)
        with Database(url).transaction() as cursor:
            cursor.execute("DELETE FROM consumer_positions")
        found[size] = {name: round(statistics.median(one), 2) for name, one in times.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder, PostgresServer(fsync=True) as server:
        found = {"SQLite": measure(f"sqlite:///{folder}/rows.sqlite"), "PostgreSQL": measure(server.url)}
    if as_json:
        print(json.dumps(found))
        return
    print("| database | rows in a batch | rows alone | keyed rows | rows and positions |\n|---|---|---|---|---|")
    for database, sizes in found.items():
        for size, times in sizes.items():
            print(f"| {database} | {size} | " + " | ".join(f"{ms:g} ms" for ms in times.values()) + " |")


if __name__ == "__main__":
    main()
