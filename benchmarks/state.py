"""State: what it adds to the stall of a moved partition, its batches, and records per CPU second beside Spark's state.

    python -m benchmarks.state [--keys 1000,100000,1000000] [--rounds 15] [--json FILE]

Stall: a new owner's claim and first batch of 1,000 rows, with state and without, in turns; PostgreSQL and SQLite run on
this host. Batches: 24,000 rows of random keys. CPU: a Spark application reads the same Parquet files, and counts the rows
of each key by `Stateful` on SQLite, or by `transformWithState` with RocksDB, three times each, in turns; its whole process
tree counts, without the start and the first file.
"""

import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, options, ranged, report, verdict, whole, wholes
from benchmarks.source import cpu_s
from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkStep, Writer
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.spark.session import configure
from spark_apps.state.codec import encode
from spark_apps.state.sink import StatefulSink
from spark_apps.state.stateful import Stateful, stateful_sink
from spark_apps.state.table import StateRows
from tests.postgres_server import PostgresServer
from tests.stateful_bench import TOTALS, Counting

FIRST_ROWS, LARGE_ROWS, LARGE_ROUNDS = 1_000, 24_000, 7
FILES, FILE_ROWS = 8, 24_000
WAYS, APPLICATIONS = ("stateful", "spark"), 3
STALL_MS, LARGE_MS = 50, 1_000
RATIOS = {1_000: 1.0, 100_000: 3.0}
"""Keys → least number of our records per CPU second for one of Spark's."""
FILL_ROWS = 100_000
SEED = 1
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROWS = T.StructType().add("key", T.StringType()).add("partition", T.IntegerType()).add("offset", T.LongType())
ARROW = pa.schema([("key", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def nothing(*_: object) -> None:
    """Store no rows: the rows of a processor are not what is measured."""


def stateful(url: str, frame: Any = None) -> StatefulSink:
    rows = frame or SimpleNamespace(schema=ROWS)
    return stateful_sink(Stateful(rows, Counting(), DatabaseSink(Database(url), nothing, nothing), output=TOTALS))


def key_of(number: int) -> str:
    return f"customer-{number:08}"


def batch(size: int, keys: int, start: int, chance: random.Random) -> pa.Table:
    found = [key_of(chance.randrange(keys)) for _ in range(size)]
    return pa.table([found, [0] * size, range(start, start + size)], schema=ARROW)


def fill(url: str, writer: Writer, keys: int) -> None:
    """Store a count under each key."""
    value = encode([[1], None])
    for first in range(0, keys, FILL_ROWS):
        rows = [(encode([key_of(n)]), "count", value, None) for n in range(first, min(keys, first + FILL_ROWS))]
        database = Database(url)
        with database.transaction() as cursor:
            StateRows(cursor, writer, "state").put(0, rows)
        database.close()


class Owner:
    """A partition that moves from owner to owner, each with connections of its own."""

    def __init__(self, make: Callable[[], DatabaseSink], writer: Writer) -> None:
        self.make, self.writer = make, writer
        self.offset, self.epoch = 0, 1

    def move(self, rows: pa.Table, *, moves: bool = True) -> float:
        """Return the milliseconds of a claim and a batch, or of a batch alone."""
        if moves:
            self.epoch += 1
            self.sink = self.make()
        token = Token(self.epoch, 1, "g")
        began = time.perf_counter()
        if moves:
            self.sink.claim(self.writer, {0: token}, {})
        refused = self.sink.write(self.writer, {0: SinkStep(token, self.offset, self.offset + rows.num_rows)}, rows)
        took = (time.perf_counter() - began) * 1_000
        assert not refused
        self.offset += rows.num_rows
        return round(took, 2)


def measure(url: str, keys: int, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of first batches with and without state, and of large batches."""
    chance = random.Random(SEED)
    with_state = Owner(lambda: stateful(url), Writer(f"c{keys}", "orders", "id", "a"))
    without = Owner(lambda: DatabaseSink(Database(url), nothing, nothing), Writer(f"s{keys}", "orders", "id", "a"))
    for owner in (with_state, without):
        owner.move(batch(1, keys, 0, chance))
    fill(url, with_state.writer, keys)
    found: dict[str, list[float]] = {"state": [], "stateless": [], "large": []}
    for _ in range(rounds):
        found["state"].append(with_state.move(batch(FIRST_ROWS, keys, 0, chance)))
        found["stateless"].append(without.move(batch(FIRST_ROWS, keys, 0, chance)))
        with_state.sink.close()
        without.sink.close()
    for number in range(LARGE_ROUNDS):
        found["large"].append(with_state.move(batch(LARGE_ROWS, keys, 0, chance), moves=number == 0))
    return found


# Beside Spark's state ---------------------------------------------------------------------------------------------------


def application(way: str, keys: int, folder: Path) -> float:
    """Return the records per CPU second of a Spark application over the files, without the first."""
    chance, source = random.Random(SEED), folder / "rows"
    source.mkdir(parents=True)
    builder = configure(SparkSession.builder.master("local[2]").appName(way))
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")  # else Spark writes a warning for each key without state
    try:
        frame = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(source))
        pq.write_table(batch(FILE_ROWS, keys, 0, chance), source / "0.parquet")
        query = (_stateful_query if way == "stateful" else _spark_query)(frame, folder).start()
        query.processAllAvailable()
        before = cpu_s()
        for number in range(1, FILES + 1):
            pq.write_table(batch(FILE_ROWS, keys, number * FILE_ROWS, chance), source / f"{number}.parquet")
            query.processAllAvailable()
        used = cpu_s() - before
        query.stop()
    finally:
        spark.stop()
    return round(FILES * FILE_ROWS / used)


def _stateful_query(frame: DataFrame, folder: Path) -> Any:
    url = f"sqlite:///{folder}/state.sqlite"
    owner = Owner(lambda: stateful(url, frame), Writer("c", "orders", "id", "a"))
    moved = list[bool]()

    def write(rows: DataFrame, _: int) -> None:
        owner.move(rows.toArrow(), moves=not moved)
        moved.append(True)

    return frame.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))


def _spark_query(frame: DataFrame, folder: Path) -> Any:
    counted = frame.groupBy("key").transformWithState(Counting(), TOTALS, "Update", "None")
    written = counted.writeStream.outputMode("update").foreachBatch(
        lambda rows, _: rows.write.format("noop").mode("append").save()
    )
    return written.option("checkpointLocation", str(folder / "checkpoint"))


def markdown(result: Mapping[str, Any]) -> str:
    rows = []
    for cell in result["cells"]:
        stall = median([a - b for a, b in zip(cell["ms"]["state"], cell["ms"]["stateless"], strict=True)])
        large = cell["ms"]["large"]
        targets = [(stall <= STALL_MS, f"stall {STALL_MS} ms")]
        if cell["database"] == "PostgreSQL":
            targets.append((max(large) <= LARGE_MS, f"batch {LARGE_MS:,} ms"))
        first = f"{median(cell['ms']['state']):.1f}"
        rows.append([cell["database"], f"{cell['keys']:,}", first, f"{stall:.1f}", ranged(large), verdict(*targets)])
    times = ("claim and first batch, ms", "more than without state, ms", f"batch of {LARGE_ROWS:,}, ms")
    titles = ("database", "keys", *times, "targets")
    how = (in_rounds(result["rounds"]), "medians (least to most)")
    cpu = [
        [
            f"{one['keys']:,}",
            *(ranged(one[way]) for way in WAYS),
            f"{(ratio := median(one['stateful']) / median(one['spark'])):.1f}",
            verdict((ratio >= RATIOS[one["keys"]], f"ratio {RATIOS[one['keys']]:g}")),
        ]
        for one in result["cpu"]
    ]
    head = ("keys", "`Stateful`, records per CPU second", "`transformWithState`", "ratio", "targets")
    beside = grid(head, cpu, ("targets",))
    return f"{told(result, *how)}\n\n{grid(titles, rows, ('targets',))}\n\n{beside}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--keys", type=wholes, default=(1_000, 100_000, 1_000_000))
    parser.add_argument("--rounds", type=whole, default=15)
    given = parser.parse_args()
    with noted(rounds=given.rounds, cells=[], cpu=[]) as result, tempfile.TemporaryDirectory() as folder:
        with PostgresServer(as_it_comes=True) as server:
            for database, url in {"SQLite": f"sqlite:///{folder}/rows.sqlite", "PostgreSQL": server.url}.items():
                for keys in given.keys:
                    cell = {"database": database, "keys": keys, "ms": measure(url, keys, given.rounds)}
                    result["cells"].append(cell)
        for keys in RATIOS:
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for number in range(APPLICATIONS):
                for way in WAYS if number % 2 == 0 else reversed(WAYS):
                    found[way].append(application(way, keys, Path(folder) / f"{way}-{keys}-{number}"))
            result["cpu"].append({"keys": keys, **found})
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
