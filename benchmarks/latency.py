"""From producer to sink at a low rate, what a small batch costs, and what an idle consumer costs.

    PYTHONPATH=. python -m benchmarks.latency [--seconds 60] [--rounds 3] [--json FILE]

- `latency` (`latency-12`, `latency-48`): a producer writes 1,000 records/s to 4 (12, 48) partitions; milliseconds from the
  call of `produce` to the sink, a `foreachBatch` that collects the records, and the parts of a batch. Our source and
  Spark's own take turns. Spark's runs twice: as it comes (`jvm`: a fetch waits up to 500 ms, the checkpoint is on disk),
  and tuned as ours is (`tuned`: 20 ms, the progress in memory). The control is a plain consume loop of confluent-kafka,
  with 20 ms as well. A warm-up comes before each measurement, a third as long, or with `--warm-up` so many seconds: a JVM
  compiles for minutes, and that takes as much of the processors as the batches do. The parts of a batch are those of the
  last 100 batches, as Spark keeps no more.
- `small`: the same with 10 records every half second, so that nearly nothing but the overhead of a batch is left.
  `collect` is the part of `addBatch` in which the sink's function collects the records.
- `idle`: cores used without any record, by the driver's Python (the agent), the JVM and the source's own processes,
  with 4 and with 1,000 owned partitions.

Every measurement is a process of its own with local[2] and our session settings. All on this machine.
"""

import json
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, of_process, options, report, verdict, whole
from benchmarks.source import FETCH_WAIT_MS, SPARKS, TITLES, open_stream, spread, started
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.jars import ensure_jars
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from tests.spark_jars import CONNECTOR

PARTITIONS, MANY = 4, 1000
BURST = 10
RATE = {"latency": 0.01, "latency-12": 0.01, "latency-48": 0.01, "small": 0.5}
"""Seconds between two bursts of records."""
SPREAD = {"latency-12": 12, "latency-48": 48}
"""Partitions of the kinds with others than `PARTITIONS`."""
KINDS = (*RATE, "idle")
SIDES = ("ours", "jvm", "tuned")
PERCENTILES = (50, 90, 95, 99)
LIMIT_S = 120.0
SHOWN = ("p50_ms", "p95_ms", "p99_ms")
SMALL_MS = 120.0
"""Target for the median of small batches, which are also to be no slower than those of Spark's tuned source."""
SHARE = 0.7
"""Target at 1,000 records/s: our latency divided by that of Spark's tuned source."""
PARTS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


@dataclass(frozen=True, slots=True)
class Times:
    """Of a measurement: seconds of warm-up, and seconds that count."""

    warm_up_s: float
    seconds: float

    @property
    def total_s(self) -> float:
        return self.warm_up_s + self.seconds


class Traffic:
    """Records whose value begins with their production time, until the block ends."""

    def __init__(self, servers: str, topic: str, kind: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._topic, self._partitions = topic, SPREAD.get(kind, PARTITIONS)
        self._every_s = RATE[kind]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(20)

    def _run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += self._every_s
            for _ in range(BURST):
                stamp, number = struct.pack("<d", time.time()), number + 1
                self._producer.produce(self._topic, stamp + bytes(142), partition=number % self._partitions)
            self._producer.poll(0)


class Arrivals:
    """Arrival times and ages of records; only after `from_s`."""

    def __init__(self, from_s: float) -> None:
        self.ages_ms: list[float] = []
        self._from = time.monotonic() + from_s

    def begin(self, from_s: float) -> None:
        self._from = time.monotonic() + from_s

    def take(self, values: list[bytes]) -> None:
        now = time.time()
        if time.monotonic() >= self._from:
            self.ages_ms += [(now - struct.unpack_from("<d", value)[0]) * 1000 for value in values]

    def figures(self) -> dict[str, float]:
        ages = sorted(self.ages_ms)
        if not ages:
            raise SystemExit("no record came in time: give more --seconds, or a quieter machine")
        return {f"p{p}_ms": ages[min(len(ages) - 1, len(ages) * p // 100)] for p in PERCENTILES} | {"max_ms": ages[-1]}


def control(servers: str, topic: str, kind: str, times: Times) -> dict[str, float]:
    named = {"bootstrap.servers": servers, "group.id": "control", "log_level": "0"}
    consumer = Consumer({**named, "fetch.wait.max.ms": FETCH_WAIT_MS})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(SPREAD.get(kind, PARTITIONS))}
    consumer.assign([TopicPartition(topic, p, end) for p, end in ends.items()])
    arrivals, until = Arrivals(times.warm_up_s), time.monotonic() + times.total_s
    with Traffic(servers, topic, kind):
        while time.monotonic() < until:
            arrivals.take([m.value() or b"" for m in consumer.consume(1000, 0.005) if m.error() is None])
    consumer.close()
    return arrivals.figures()


def query(side: str, servers: str, topic: str, kind: str, times: Times) -> dict[str, float]:
    arrivals = Arrivals(LIMIT_S + times.total_s)  # begins anew after the first batch
    collecting_ms: list[float] = []

    def collect(batch: DataFrame, _: int) -> None:
        began = time.monotonic()
        arrivals.take(batch.select("value").toArrow()["value"].to_pylist())
        collecting_ms.append((time.monotonic() - began) * 1000)

    with open_stream(side, servers, topic, starting="latest") as stream, tempfile.TemporaryDirectory() as folder:
        running = started(stream.writeStream.foreachBatch(collect).option("checkpointLocation", folder), side)
        if kind == "idle":
            return idle(times.seconds)
        with Traffic(servers, topic, kind):
            wait_for_batch(running, side)
            arrivals.begin(times.warm_up_s)
            time.sleep(times.warm_up_s)
            warm, collected = running.recentProgress[-1]["batchId"], len(collecting_ms)
            time.sleep(times.seconds)
        found = [one for one in running.recentProgress if one["numInputRows"] > 0 and one["batchId"] > warm]
        memory_mib = memory()
        running.stop()
    figures = arrivals.figures()
    parts = {f"{name}_ms": median([one["durationMs"].get(name, 0) for one in found]) for name in PARTS}
    collect_ms = median(collecting_ms[collected:])
    return {**figures, **parts, "collect_ms": collect_ms, "batches": len(found), "memory_mib": memory_mib}


def wait_for_batch(running: StreamingQuery, side: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not any(one["numInputRows"] for one in running.recentProgress):
        if time.monotonic() > deadline:
            raise SystemExit(f"{side}: no batch within {LIMIT_S:g} s; the machine is too busy to measure on")
        time.sleep(0.1)


def idle(seconds: float) -> dict[str, float]:
    """Cores in use over the later two thirds."""
    time.sleep(seconds / 3)
    before, began = by_part(), time.monotonic()
    time.sleep(seconds * 2 / 3)
    after, took = by_part(), time.monotonic() - began
    return {f"{name}_cores": (after[name] - before.get(name, 0.0)) / took for name in after}


def memory() -> float:
    """Return the MiB of this process and all its children; a page shared by several processes counts once."""
    me = psutil.Process()
    return float(sum(one.memory_full_info().pss for one in (me, *me.children(recursive=True)))) / 2**20


def by_part() -> dict[str, float]:
    me = psutil.Process()
    found = {"driver": sum(me.cpu_times()[:2]), "jvm": 0.0, "python": 0.0}
    for one in me.children(recursive=True):
        try:
            found["jvm" if "java" in one.name() else "python"] += sum(one.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return found


# All measurements ----------------------------------------------------------------------------------------------------


def one_run(kind: str, side: str, servers: str, topic: str, times: Times) -> dict[str, float]:
    command = ["-m", "benchmarks.latency", "--worker", kind, side, servers, topic]
    command += ["--seconds", str(times.seconds), "--warm-up", str(times.warm_up_s)]
    found: dict[str, float] = of_process(f"{kind}, {side}", *command)
    print(f"{kind}, {side}, {topic}: {json.dumps(found)}", file=sys.stderr)
    return found


def all_runs(rounds: int, kinds: Sequence[str], times: Times) -> dict[str, Any]:
    ensure_jars(CONNECTOR)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(Path(folder)) as kafka:
        servers = kafka.bootstrap_servers
        admin = ConfluentKafkaAdmin({"bootstrap.servers": servers}, limit_s=60.0)
        admin.create_topic("few", PARTITIONS)
        admin.create_topic("many", MANY)
        for kind in SPREAD.keys() & {*kinds}:
            admin.create_topic(kind, SPREAD[kind])
        for kind in (one for one in RATE if one in kinds):
            found: dict[str, list[dict[str, float]]] = {}
            topic = kind if kind in SPREAD else "few"
            for number in range(rounds):
                for side in (*(SIDES if number % 2 == 0 else SIDES[::-1]), "control"):
                    found.setdefault(side, []).append(one_run(kind, side, servers, topic, times))
            result[kind] = {side: joined(runs) for side, runs in found.items()}
        if "idle" in kinds:
            result["idle"] = {
                f"{side}, {topic}": joined([one_run("idle", side, servers, topic, times) for _ in range(rounds)])
                for topic in ("few", "many")
                for side in SIDES
            }
    return result


def joined(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: spread([one[name] for one in runs]) for name in runs[0]}


def markdown(result: Mapping[str, Any]) -> str:
    """Medians of the rounds, for each rate and side."""
    kinds = {
        "latency": "1,000 records/s: ",
        "latency-12": "to 12 partitions: ",
        "latency-48": "to 48 partitions: ",
        "small": "10 records every 0.5 s: ",
    }
    parts = ("a batch", "looking for offsets", "planning", "`walCommit`", "`addBatch`", "`commitOffsets`")
    rows, rounds = [], 1
    for kind in (one for one in kinds if one in result):
        title = kinds[kind]
        for side, figures in result[kind].items():
            found = [f"{figures[name]['median']:,.0f}" for name in SHOWN]
            found += [f"{figures[f'{name}_ms']['median']:,.0f}" if side != "control" else "–" for name in PARTS]
            found.append(f"{figures['memory_mib']['median']:,.0f}" if "memory_mib" in figures else "–")
            rows.append([title + TITLES[side], *found, target_of(kind, result[kind]) if side == "ours" else "–"])
            title, rounds = "", figures["p50_ms"]["n"]
    titles = ("", "p50", "p95", "p99", *parts, "MiB of memory", "target")
    times = f"{result['seconds']:g} s each after {result['warm_up_s']:g} s"
    return f"{told(result, in_rounds(rounds), times)}\n\n{grid(titles, rows, ('target',))}" if rows else ""


def target_of(kind: str, sides: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    own, tuned = (
        [sides[side][name]["median"] for name in SHOWN] if side in sides else [] for side in ("ours", "tuned")
    )
    share = 1.0 if kind == "small" else SHARE
    each = zip(SHOWN, own, tuned, strict=False)  # without the tuned source there is nothing to compare
    targets = [(mine <= most * share, f"{name.removesuffix('_ms')} ≤ {most * share:.0f}") for name, mine, most in each]
    if kind == "small":
        targets.append((own[0] <= SMALL_MS, f"p50 ≤ {SMALL_MS:g}"))
    return verdict(*targets)


def idle_markdown(result: Mapping[str, Any]) -> str:
    """Return the used cores without any record; "" if not measured."""
    if "idle" not in result:
        return ""
    partitions = {"few": f"{PARTITIONS} owned partitions", "many": f"{MANY:,} owned partitions"}
    rows, rounds = [], 1
    for name, figures in result["idle"].items():
        side, topic = name.split(", ")
        title = TITLES[side] if side in SPARKS else f"{partitions[topic]}: {TITLES[side]}"
        rows.append([title, *(f"{figures[f'{part}_cores']['median']:.3f}" for part in ("driver", "jvm", "python"))])
        rounds = figures["jvm_cores"]["n"]
    titles = ("cores in use without any record", "the driver's Python (ours: the agent)", "JVM", "Python of the source")
    return f"{told(result, in_rounds(rounds))}\n\n{grid(titles, rows)}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--warm-up", type=float, help="seconds before that (a third as long)")
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--worker", nargs=4, metavar=("KIND", "SIDE", "SERVERS", "TOPIC"))
    given = parser.parse_args()
    times = Times(given.seconds / 3 if given.warm_up is None else given.warm_up, given.seconds)
    if given.worker:
        kind, side, servers, topic = given.worker
        control_or_query = control if side == "control" else partial(query, side)
        print(json.dumps(control_or_query(servers, topic, kind, times)))
        return
    with noted(rounds=given.rounds, **asdict(times)) as result:
        result.update(all_runs(given.rounds, given.kinds, times))
    report(result, lambda found: "\n\n".join([markdown(found), idle_markdown(found)]), given.json)


if __name__ == "__main__":
    main()
