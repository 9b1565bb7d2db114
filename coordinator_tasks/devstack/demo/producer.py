"""A steady producer in a separate process: orders with a time stamp, and a sequence number in each partition.

    python -m coordinator_tasks.devstack.demo.producer --bootstrap host:9092 --topic orders --partitions 12 --journal FILE

The journal has a line for each confirmed record: partition, offset, sequence, produced at (seconds since 1970). After
SIGTERM the journal ends with the line `end` if the broker has confirmed every sent record.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from confluent_kafka import KafkaError, Message, Producer

from coordinator_tasks.devstack.demo.evidence import Produced

TICK_S = 0.01
FLUSH_S = 30.0
JOURNAL_EVERY_S = 0.5
END = "end"
PRODUCTS = ("tea", "coffee", "cocoa", "mate", "water")
SETTINGS = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}


class SteadyProducer:
    """Sends records to the partitions in turn, and writes confirmed records to the journal."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, journal: TextIO) -> None:
        self._kafka = Producer({**SETTINGS, "bootstrap.servers": bootstrap_servers})
        self._topic = topic
        self._sequences = [0] * partitions
        self._journal = journal
        self._stop = False
        self.failed = 0

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._stop = True

    def run(self, rate: float) -> bool:
        """Send `rate` records per second until stopped. Return whether all records were confirmed."""
        began_s, sent, journaled_s = time.monotonic(), 0, 0.0
        while not self._stop:
            now_s = time.monotonic()
            while sent < (now_s - began_s) * rate and not self._stop:
                self._send(sent % len(self._sequences))
                sent += 1
            self._kafka.poll(TICK_S)
            if now_s - journaled_s > JOURNAL_EVERY_S:
                self._journal.flush()
                journaled_s = now_s
            time.sleep(TICK_S / 2)
        clean = self._kafka.flush(FLUSH_S) == 0 and self.failed == 0
        if clean:
            self._journal.write(f"{END}\n")
        self._journal.flush()
        return clean

    def _send(self, partition: int) -> None:
        sequence, now = self._sequences[partition], time.time()
        self._sequences[partition] += 1
        order = {
            "order_id": f"{partition}-{sequence}",
            "product": PRODUCTS[sequence % len(PRODUCTS)],
            "quantity": 1 + sequence % 4,
            "price": f"{2 + sequence % 7}.50",
            "ordered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            "sequence": sequence,
            "produced_at": now,
        }

        def confirmed(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed += 1
                print(f"partition {partition} sequence {sequence}: {error}", file=sys.stderr)
            else:
                self._journal.write(f"{partition} {message.offset()} {sequence} {now!r}\n")

        self._kafka.produce(self._topic, json.dumps(order).encode(), partition=partition, on_delivery=confirmed)


def read_journal(path: Path) -> tuple[list[Produced], bool]:
    """Return the records produced so far, and whether the producer ended cleanly. An incomplete line is left out."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line.split() for line in lines if line.endswith("\n")]
    ended = bool(whole) and whole[-1] == [END]
    return [Produced(int(p), int(o), int(s), float(at)) for p, o, s, at in whole[: len(whole) - ended]], ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Produce until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m coordinator_tasks.devstack.demo.producer")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1000.0, help="records per second over all partitions")
    parser.add_argument("--journal", type=Path, required=True)
    given = parser.parse_args(arguments)
    with given.journal.open("w") as journal:
        producer = SteadyProducer(given.bootstrap, given.topic, given.partitions, journal)
        signal.signal(signal.SIGTERM, producer.stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return 0 if producer.run(given.rate) else 1


if __name__ == "__main__":
    sys.exit(main())
