"""Cost of `fence=transactional` beside the default: commits, take-over, and a consumer's throughput, in one run.

    python -m benchmarks.fence [--json FILE]

Commits: all partitions of a consumer at once, as its agent does. Throughput: a plain consumer reads a backlog; its
agent commits at most twenty times a second. Alternating, so that a busy machine is busy for both.
"""

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any

import psutil
from confluent_kafka import Producer

from benchmarks.circumstances import noted, told
from benchmarks.plain_loop import looping
from benchmarks.result import grid, options, report
from benchmarks.servers import served
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Committed, StartRule, Token
from coordinator_tasks.core.ports import GroupOffsets
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.settings import TOKEN_FENCE, TRANSACTIONAL_FENCE
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.plain import PlainConsumer, Record

FENCES = (TOKEN_FENCE, TRANSACTIONAL_FENCE)
PARTITIONS = (1, 10, 50)
ROUNDS = 2
COMMITS, RECORDS = 100, 400_000
BACKLOG = 10
"""Partitions of a consumer for the throughput."""
LIMIT_S = 240.0
TOKEN = Token(1, 1, "g")


def offsets_of(fence: str, kafka: str, group: str) -> GroupOffsets:
    settings = {"bootstrap.servers": kafka, "log_level": "1"}
    if fence == TRANSACTIONAL_FENCE:
        return TransactionalGroupOffsets(settings, group, "bench", 30.0)
    return ConfluentGroupOffsets(settings, group, 30.0)


def commits(kafka: str, fence: str, partitions: int) -> dict[str, Any]:
    """Return the milliseconds of a commit of `partitions`; `hold_ms`: until commits were possible."""
    topic = f"commits-{fence}-{partitions}"
    ConfluentKafkaAdmin({"bootstrap.servers": kafka}).create_topic(topic, partitions)
    offsets = offsets_of(fence, kafka, topic)
    offsets.committed(topic, range(partitions))  # finds the group's coordinator
    me = psutil.Process()
    threads, memory = me.num_threads(), me.memory_info().rss
    began = time.perf_counter()
    while offsets.hold(topic, "id", dict.fromkeys(range(partitions), TOKEN)):
        pass
    hold_ms = 1000 * (time.perf_counter() - began)
    times = []
    for number in range(COMMITS + 5):
        began = time.perf_counter()
        offsets.commit(topic, {p: Committed(number, TOKEN, "bench", "bench", "id") for p in range(partitions)})
        times.append(1000 * (time.perf_counter() - began))
    times = times[5:]
    return {
        "fence": fence,
        "partitions": partitions,
        "hold_ms": round(hold_ms, 1),
        "commit_ms_median": round(median(times), 2),
        "commit_ms_p95": round(quantiles(times, n=20)[-1], 2),
        "threads": me.num_threads() - threads,
        "mib": round((me.memory_info().rss - memory) / 2**20, 1),
    }


class Count:
    """A counting sink."""

    def __init__(self) -> None:
        self.records = 0
        self.first_at = 0.0

    def __call__(self, _topic: str, records: Sequence[Record]) -> None:
        self.first_at = self.first_at or time.perf_counter()
        self.records += len(records)


@contextmanager
def managing(settings: Settings, topic: str) -> Iterator[None]:
    with open_coordinator(settings) as c:
        topics.add_topic(c, topic, f"g-{topic}", start=StartRule.EARLIEST, actor=Actor("command", "benchmark"))
        with looping(c):
            yield


def backlog(kafka: str, topic: str) -> None:
    ConfluentKafkaAdmin({"bootstrap.servers": kafka}).create_topic(topic, BACKLOG)
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    for number in range(RECORDS):
        producer.produce(topic, b"x" * 100, partition=number % BACKLOG)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def throughput(zookeeper: str, kafka: str, fence: str, topic: str) -> dict[str, Any]:
    """Return the records per second of a plain consumer from its first record to its last."""
    client = {"bootstrap.servers": kafka, "log_level": "1"}
    cluster = f"{topic}-{fence}".lower()
    settings = Settings(cluster, zookeeper, client, fence=fence, policy=Policy(settle_s=0.1))
    sink = Count()
    consumer = PlainConsumer(ConsumerSettings(settings, "a"), sink)
    thread = threading.Thread(target=consumer.run, daemon=True)
    with managing(settings, topic):
        thread.start()
        deadline = time.monotonic() + LIMIT_S
        while sink.records < RECORDS and time.monotonic() < deadline:
            time.sleep(0.01)
        took_s = time.perf_counter() - sink.first_at
        consumer.leave(5.0)
        thread.join(30)
    if sink.records < RECORDS:
        said = f"{sink.records:,} of {RECORDS:,} records of {topic} were read within {LIMIT_S:g} s with {fence}"
        sys.exit(f"{said}; the machine may be too busy to measure on")
    return {"fence": fence, "records": sink.records, "records_per_s": round(sink.records / took_s)}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the commits of both fences side by side, and the throughput of each round below."""
    found = {(one["partitions"], one["fence"]): one for one in result["commits"]}
    rows = []
    for partitions in dict.fromkeys(one["partitions"] for one in result["commits"]):
        token, own = found[partitions, TOKEN_FENCE], found[partitions, TRANSACTIONAL_FENCE]
        both = [f"{one['commit_ms_median']:.0f} ms, {one['commit_ms_p95']:.0f} ms" for one in (token, own)]
        rows.append(
            [str(partitions), *both, f"{own['hold_ms'] / 1000:.1f} s", f"{own['threads']}, {own['mib']:.0f} MiB"]
        )
    titles = (
        "partitions of one consumer",
        f"commit of all of them, `{TOKEN_FENCE}`: median, p95",
        f"`{TRANSACTIONAL_FENCE}`",
        "until they can be committed at all",
        "threads, memory more",
    )
    rates = {
        fence: " and ".join(f"{one['records_per_s']:,}" for one in result["throughput"] if one["fence"] == fence)
        for fence in FENCES
    }
    said = "; ".join(f"{rate} records/s with `{fence}`" for fence, rate in rates.items())
    read = f"A plain consumer that reads a backlog of {result['records']:,} records in {BACKLOG} partitions: {said}."
    return f"{told(result, 'Both fences in one run')}\n\n{grid(titles, rows, titles)}\n\n{read}"


def main() -> None:
    parser = options(__doc__)
    given = parser.parse_args()
    asked = noted(rounds=ROUNDS, records=RECORDS, commits=[], throughput=[])
    with asked as result, served("fence") as (_, zookeeper, kafka):
        for partitions in PARTITIONS:
            for fence in FENCES:
                result["commits"].append(commits(kafka, fence, partitions))
        for number in range(ROUNDS):
            for fence in FENCES:
                topic = f"backlog-{number}-{fence}"
                backlog(kafka, topic)
                result["throughput"].append(throughput(zookeeper, kafka, fence, topic))
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
