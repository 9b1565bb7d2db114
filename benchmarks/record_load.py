"""Records a load for `benchmarks.autoscale`: how many records a second are written to each partition of a topic.

    python -m benchmarks.record_load [--minutes 10] [--json FILE]

It starts a broker with a topic of 24 partitions, and writes there what this machine does: each second, a record for every few context switches of each process, with the process's name as the
key. So the rates come in bursts, and partitions are as uneven as the processes are.
"""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from benchmarks.circumstances import circumstances
from benchmarks.result import options, report
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka

TOPIC, PARTITIONS = "work", 24
EVERY_S = 5.0
SWITCHES = 10
"""Context switches per record."""


@contextmanager
def written(kafka: str) -> Iterator[None]:
    """Write the activity of the machine's processes to the topic until the block ends."""
    stop = threading.Event()

    def work() -> None:
        producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "log_level": "1"})
        before = switches()
        while not stop.wait(1.0):
            now = switches()
            for (_, name), count in (now - before).items():
                for _ in range(count // SWITCHES):
                    producer.produce(TOPIC, b"x", key=name.encode())
                producer.poll(0)
            before = now
        producer.flush(10)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def switches() -> Counter[tuple[int, str]]:
    """Return process id and name → its context switches so far."""
    found: Counter[tuple[int, str]] = Counter()
    for process in psutil.process_iter(["name", "num_ctx_switches"]):
        counts = process.info["num_ctx_switches"]
        if counts is not None:
            found[process.pid, process.info["name"]] = counts.voluntary + counts.involuntary
    return found


def recorded(kafka: str, minutes: float) -> dict[str, Any]:
    """Rates of each partition, a row for every few seconds."""
    partitions = range(PARTITIONS)
    offsets = ConfluentGroupOffsets({"bootstrap.servers": kafka, "log_level": "1"}, "record-load")
    rows: list[list[int]] = []
    began, before = time.monotonic(), offsets.ends(TOPIC, partitions)
    while time.monotonic() - began < minutes * 60:
        time.sleep(max(0.0, began + (len(rows) + 1) * EVERY_S - time.monotonic()))
        now = offsets.ends(TOPIC, partitions)
        rows.append([round((now[p] - before[p]) / EVERY_S) for p in partitions])
        before = now
    return {"every_s": EVERY_S, "partitions": PARTITIONS, "rates": rows}


def show(result: dict[str, Any]) -> str:
    """The recording in a line."""
    totals = [sum(row) for row in result["rates"]]
    return (
        f"{len(totals)} rows of {result['partitions']} partitions: {min(totals)} to {max(totals)} records/s, "
        f"{sum(totals) / len(totals):.0f} on average"
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record-load-") as folder, EmbeddedKafka(Path(folder)) as broker:
        ConfluentKafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).create_topic(TOPIC, PARTITIONS)
        with written(broker.bootstrap_servers):
            found = recorded(broker.bootstrap_servers, given.minutes)
    report({"circumstances": circumstances(), **found}, show, given.json)


if __name__ == "__main__":
    main()
