"""Our source beside Spark's own Kafka source: records/s, MB/s, CPU per record, first batch, total time.

    PYTHONPATH=. python benchmarks/source.py [--records 12000000] [--rounds 10] [--warm-up 30] [--json FILE]

Each side is a process of its own with local[2]. In a pass, a query reads the same records of 4 partitions from the
beginning, in batches of a twelfth, and writes them nowhere (Spark's sink "noop"); "mapInArrow" has a Python stage behind
the source. Each batch costs Spark some 50 ms, besides its records, so the sides hardly differ with few records. A JVM compiles
for half a minute, so each side first repeats the pass for `--warm-up` seconds. Then the sides take turns, in another
order from round to round, and the idle sides wait. A plain consume loop of confluent-kafka is the control: where its
figures differ much, the machine was not quiet. "steady" leaves out the first batch. CPU is that of the JVM, the Python
processes and Kafka's clients together, not that of the broker.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

import psutil
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, options, report, verdict, whole
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.jars import ensure_jars
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.records.agent_socket import AgentServer, Reading
from spark_apps.spark import progress, session, source
from tests.integration.sole_owner import sole_owner
from tests.spark_jars import CONNECTOR

PARTITIONS = 4
BATCHES = 12
SIZES = (150, 1000)
SPARKS = ("jvm", "tuned")
"""`jvm` is Spark's source by default, `tuned` with our settings: of the Kafka client, and the progress in memory."""
SIDES = ("ours", *SPARKS)
FETCH_WAIT_MS = 10
TUNED = {
    "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
    "kafka.max.poll.records": "4000",
    "kafka.fetch.max.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": "-1",
}
"""Our reader's settings of the Kafka client."""
STAGES = ("plain", "mapInArrow")
LIMIT_S = 900.0
TITLES = {"ours": "ours", "jvm": "Spark's, as it comes", "tuned": "Spark's, tuned", "control": "control"}
TIMES_TUNED = {(150, "plain"): 1.3, (1000, "plain"): 1.4, (150, "mapInArrow"): 1.5, (1000, "mapInArrow"): 1.5}
"""Targets: our steady records/s divided by the records/s of Spark's tuned source."""
FIGURES = {
    "steady_per_s": "steady, records/s",
    "steady_mb_per_s": "MB/s",
    "cpu_us": "CPU, µs/record",
    "steady_cpu_us": "steady",
    "first_s": "first batch, s",
    "total_s": "total, s",
}


# One side, in a separate process -------------------------------------------------------------------------------------


@contextmanager
def passes(side: str, stage: str, servers: str, topic: str, records: int) -> Iterator[Callable[[], dict[str, float]]]:
    """Yield a function that performs a pass."""
    if side == "control":
        yield lambda: control(servers, topic, records)
        return
    limit = {"maxOffsetsPerTrigger": str(records // BATCHES)}
    with open_session(side) as session:

        def perform() -> dict[str, float]:
            stream = session.stream(servers, topic, **limit)
            rows = stream.mapInArrow(same, stream.schema) if stage == "mapInArrow" else stream
            return run(rows.writeStream.format("noop"), records, side)

        yield perform


def control(servers: str, topic: str, records: int) -> dict[str, float]:
    """A plain consume loop; nothing is made of the records."""
    settings = {"bootstrap.servers": servers, "group.id": "control", "fetch.queue.backoff.ms": 5, "log_level": "0"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    meter = Meter()
    while meter.records < records:
        meter.see(meter.records + len(consumer.consume(10_000, 0.05)))
    consumer.close()
    return meter.figures()


@dataclass(frozen=True, slots=True)
class Session:
    """A Spark session of one side, ours with a server for its agents."""

    side: str
    spark: SparkSession
    server: AgentServer

    def stream(
        self, servers: str, topic: str, starting: str = "earliest", runner: TopicRunner | None = None, **options: str
    ) -> DataFrame:
        """Return the stream of a topic, ours with a new agent, or with `runner`."""
        options = {**TUNED, **options} if self.side == "tuned" else options
        options |= {"subscribe": topic, "startingOffsets": starting}
        if self.side in SPARKS:
            reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
            return reader.options(**options).load()
        self.server.serve(topic, runner or sole_owner(servers, topic, f"group-{uuid.uuid4()}"))
        return source.load(self.spark, **options)


@contextmanager
def open_session(side: str) -> Iterator[Session]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if side in SPARKS:
        builder = builder.config("spark.jars", ",".join(map(str, ensure_jars(CONNECTOR).glob("*.jar"))))
    spark = session.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    server = AgentServer(Reading("a", 1))
    try:
        if side not in SPARKS:
            source.register(spark, str(server.path))
        yield Session(side, spark, server)
    finally:
        server.close()
        spark.stop()


@contextmanager
def open_stream(
    side: str, servers: str, topic: str, starting: str = "earliest", runner: TopicRunner | None = None, **options: str
) -> Iterator[DataFrame]:
    """Yield the stream of one side in a session of its own."""
    with open_session(side) as opened:
        yield opened.stream(servers, topic, starting, runner, **options)


def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def started(writer: DataStreamWriter, side: str) -> StreamingQuery:
    """Start a query; except on the side `jvm`, Spark keeps the progress in memory, as in our consumers."""
    return writer.start() if side == "jvm" else progress.start(writer)


def run(writer: DataStreamWriter, records: int, side: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        meter = Meter()
        running = started(writer.option("checkpointLocation", folder), side)
        batches = FinishedBatches(running)
        while meter.records < records:
            time.sleep(0.05)
            meter.see(batches.records())
            if not running.isActive:
                raise SystemExit(f"the query has ended: {running.exception()}")
            if time.monotonic() - meter.began > LIMIT_S:
                raise SystemExit(f"{meter.records} of {records} records within {LIMIT_S:g} s")
        running.stop()
        return meter.figures()


class FinishedBatches:
    """Counts a query's records by few values of the JVM. PySpark's `recentProgress` asks for all values of all batches,
    and takes a tenth of a core.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query._jsq  # noqa: SLF001 - see above
        self._last, self._records = -1, 0

    def records(self) -> int:
        """Return the number of records in the finished batches."""
        last = self._query.lastProgress()
        if last is not None and last.batchId() != self._last:
            self._last = last.batchId()
            self._records = sum(batch.numInputRows() for batch in self._query.recentProgress())
        return self._records


class Meter:
    """Time and CPU of this process and its descendants, at the beginning, after the first records, and at the end."""

    def __init__(self) -> None:
        self.records = 0
        self.began, self._cpu_began = time.monotonic(), cpu_s()
        self._first: tuple[int, float, float] | None = None
        self._last = (0, self.began, self._cpu_began)

    def see(self, records: int) -> None:
        if records > self.records:
            self.records = records
            self._last = (records, time.monotonic(), cpu_s())
            self._first = self._first or self._last

    def figures(self) -> dict[str, float]:
        records, ended, cpu_ended = self._last
        first, first_at, first_cpu = self._first or self._last
        steady = max(1, records - first)
        return {
            "records": records,
            "steady_per_s": steady / max(1e-9, ended - first_at),
            "cpu_us": (cpu_ended - self._cpu_began) / records * 1e6,
            "steady_cpu_us": (cpu_ended - first_cpu) / steady * 1e6,
            "first_s": first_at - self.began,
            "total_s": ended - self.began,
        }


def cpu_s() -> float:
    """Return seconds of CPU of this process and its descendants, including ended descendants."""
    me = psutil.Process()
    total = 0.0
    for one in (me, *me.children(recursive=True)):
        try:
            total += sum(one.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


# All measurements ----------------------------------------------------------------------------------------------------


def random_values(size: int) -> list[bytes]:
    """Printable values, so that a codec would hardly change the figures."""
    return [os.urandom(size // 2 + 1).hex()[:size].encode() for _ in range(1000)]


def fill(servers: str, topic: str, values: Sequence[bytes], records: int) -> None:
    """Fill the topic with the values in turns, with short keys."""
    ConfluentKafkaAdmin({"bootstrap.servers": servers}).create_topic(topic, PARTITIONS)
    settings = {"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 262_144}
    queue = {"queue.buffering.max.kbytes": 262_144, "queue.buffering.max.messages": 200_000}
    producer = Producer({**settings, **queue})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], b"key-%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 5000 == 0:
            producer.poll(0)
    producer.flush()


def all_cells(given: argparse.Namespace) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = []
    if set(SPARKS) & set(given.sides):
        ensure_jars(CONNECTOR)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder, EmbeddedKafka(Path(folder)) as kafka:
        for size in SIZES:
            records, topic = given.records * min(SIZES) // size // BATCHES * BATCHES, f"records-{size}"
            fill(kafka.bootstrap_servers, topic, random_values(size), records)
            for stage in STAGES:
                what = kafka.bootstrap_servers, topic, records
                found = in_turns(given, size, stage, *what)
                cell = {
                    side: {name: spread([one[name] for one in runs]) for name in FIGURES}
                    for side, runs in found.items()
                }
                cells.append({"size": size, "stage": stage, "records": records, "sides": cell})
    return cells


def in_turns(
    given: argparse.Namespace, size: int, stage: str, servers: str, topic: str, records: int
) -> dict[str, list[dict[str, float]]]:
    """Return the figures of each side's passes, without the passes of the warm-up."""
    found: dict[str, list[dict[str, float]]] = {}
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(SideProcess(side, stage, servers, topic, records))
            for side in (*given.sides, "control")
        }
        for process in sides.values():
            until = time.monotonic() + given.warm_up
            while process.warm_up and time.monotonic() < until:
                process.perform()
        for number in range(given.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                figures = sides[side].perform()
                figures["steady_mb_per_s"] = figures["steady_per_s"] * size / 1e6
                found.setdefault(side, []).append(figures)
                print(f"{size} B, {stage}, round {number + 1}, {side}: {json.dumps(figures)}", file=sys.stderr)
    return found


class SideProcess:
    """A process that performs passes of one side."""

    def __init__(self, side: str, stage: str, servers: str, topic: str, records: int) -> None:
        self.warm_up = side != "control"
        self._what = f"{side}, {stage}, {topic}"
        command = (sys.executable, __file__, "--worker", side, stage, servers, topic, str(records))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def perform(self) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                figures: dict[str, float] = json.loads(line)
                return figures
        raise SystemExit(f"{self._what} failed; its last words are above")


def spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    return {"n": len(ordered), "min": ordered[0], "median": median(ordered), "p95": p95, "max": ordered[-1]}


# For people ----------------------------------------------------------------------------------------------------------


def shown(value: Mapping[str, float], *, ranged: bool) -> str:
    middle, least, most = (f"{value[of]:,.{0 if value['median'] >= 100 else 2}f}" for of in ("median", "min", "max"))
    return f"{middle} ({least}–{most})" if ranged else middle


def markdown(result: Mapping[str, Any]) -> str:
    """Of each cell a row for each side; ranges of the figures that differ most from round to round."""
    ranged = ("steady_per_s", "total_s")
    rows = []
    for cell in result["cells"]:
        size = "1 KB" if cell["size"] == 1000 else f"{cell['size']} B"
        stage = "" if cell["stage"] == "plain" else f", a `{cell['stage']}` stage behind"
        of_cell = f"{size}{stage}, {cell['records']:,} records: "
        for side, figures in cell["sides"].items():
            found = [shown(figures[name], ranged=name in ranged) for name in FIGURES]
            rows.append([of_cell + TITLES[side], *found, *beside(cell, side)])
            of_cell = ""
    count = result["cells"][0]["sides"]["control"]["steady_per_s"]["n"]
    titles = ("", *FIGURES.values(), "ours / this", "target")
    return f"{told(result, in_rounds(count))}\n\n{grid(titles, rows, ('target',))}"


def beside(cell: Mapping[str, Any], side: str) -> tuple[str, str]:
    """Return ours divided by this side of Spark's, and the target."""
    if side not in SPARKS or "ours" not in cell["sides"]:
        return "", "–"
    ratio = cell["sides"]["ours"]["steady_per_s"]["median"] / cell["sides"][side]["steady_per_s"]["median"]
    target = TIMES_TUNED.get((cell["size"], cell["stage"])) if side == "tuned" else None
    return f"{ratio:.2f}", verdict(*([] if target is None else [(ratio >= target, f"≥ {target:g}")]))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--records", type=whole, default=12_000_000, help="of 150 bytes; of larger ones as many bytes")
    parser.add_argument("--rounds", type=whole, default=10)
    parser.add_argument("--warm-up", type=whole, default=30, help="seconds of passes before the rounds")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--worker", nargs=5, metavar=("SIDE", "STAGE", "SERVERS", "TOPIC", "RECORDS"))
    given = parser.parse_args()
    if given.worker:
        side, stage, servers, topic, records = given.worker
        with passes(side, stage, servers, topic, int(records)) as perform:
            for _ in sys.stdin:  # a line asks for a pass
                print(json.dumps(perform()), flush=True)
        return
    with noted(rounds=given.rounds, warm_up_s=given.warm_up) as result:
        result["cells"] = all_cells(given)
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
