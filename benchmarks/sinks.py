"""Cost of exactly once at the sink: rows alone, keyed rows that may come twice, and rows with positions.

    python -m benchmarks.sinks [--rounds 15] [--json FILE]

Each way writes the same batches of 150-byte values from 12 partitions into a separate table, in turns within one run:
milliseconds per batch, from the Arrow table to the acknowledged commit. PostgreSQL runs on this host with fsync by
default; SQLite with synchronous=FULL.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, options, ranged, report, whole
from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from tests.postgres_server import PostgresServer

PARTITIONS = 12
SIZES = (120, 1_200, 24_000)
TOKEN = Token(1, 1, "g")
ALONE, KEYED, ONCE = WAYS = ("rows alone", "keyed rows (`RowSink.write`)", "rows and positions")
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
        step = SinkStep(TOKEN, number * each, (number + 1) * each)
        refused = sink.write(WRITER, dict.fromkeys(range(PARTITIONS), step), batch(size, number))
        assert not refused

    return run


def measure(url: str, size: int, rounds: int) -> dict[str, list[float]]:
    """Way → the milliseconds of each batch."""
    ways = {
        ALONE: plain(Database(url), f"alone{size}", lambda s, c, t: s.append(c, rows_of(t))),
        KEYED: plain(Database(url), f"keyed{size}", lambda s, c, t: s.write(c, rows_of(t))),
        ONCE: exactly_once(Database(url), f"once{size}"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, run in ways.items():
            began = time.perf_counter()
            run(size, number)
            times[name].append(round((time.perf_counter() - began) * 1000, 3))
    with Database(url).transaction() as cursor:
        cursor.execute("DELETE FROM consumer_positions")
    return times


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each database and size: the median of each way, and its quickest and slowest batch."""
    rows = [
        [cell["database"], f"{cell['rows']:,}", *(ranged(cell["ms"][way], _number) for way in WAYS)]
        for cell in result["cells"]
    ]
    how = (in_rounds(result["rounds"]), "milliseconds for each batch: median (least to most)")
    return f"{told(result, *how)}\n\n{grid(('database', 'rows in a batch', *WAYS), rows)}"


def _number(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=whole, default=15)
    given = parser.parse_args()
    with (
        noted(rounds=given.rounds, cells=[]) as result,
        tempfile.TemporaryDirectory() as folder,
        PostgresServer(as_it_comes=True) as server,
    ):
        for database, url in {"SQLite": f"sqlite:///{folder}/rows.sqlite", "PostgreSQL": server.url}.items():
            for size in SIZES:
                times = measure(url, size, given.rounds)
                result["cells"].append({"database": database, "rows": size, "ms": times})
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
