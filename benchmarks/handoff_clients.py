"""The processes of the hand-off benchmark: plain clients of Kafka's protocols and of ours, and the coordinator.

They are forked from a server with all imports, so that a start hardly disturbs other measurements. Every client notes
its processed offsets with their times, by the clock that all processes of a machine share.
"""

import multiprocessing
import os
import signal
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Event
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.plain_loop import looping
from coordinator_tasks.core.model import Actor, StartRule
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.signals import stopped_by
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.consumer_process import ConsumerSettings, leave_on_signals
from spark_apps.plain import DEFAULTS, MOST_MESSAGES, POLL_S, PlainConsumer, Record
from tests.faults.roles import die_with_parent

SPAN = struct.Struct("<diqq")
"""Time, partition, first offset, offset after the last."""
COMMIT_MS = 100
CONNECT_S = 10.0


def fork_server() -> ForkServerContext:
    """Where the processes come from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.handoff_clients", "benchmarks.handoff_traffic"])
    return context


class Journal:
    """Appends the spans of a batch in one write: all written spans were processed, regardless of later kills."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, offsets: Iterable[tuple[int, int]]) -> None:
        """Note partition and offset of each record, ascending within a partition."""
        now = time.monotonic()
        spans: list[list[int]] = []
        last: dict[int, list[int]] = {}
        for partition, offset in offsets:
            span = last.get(partition)
            if span is not None and span[2] == offset:
                span[2] += 1
            else:
                last[partition] = span = [partition, offset, offset + 1]
                spans.append(span)
        os.write(self._file, b"".join(SPAN.pack(now, *span) for span in spans))


@dataclass(frozen=True, slots=True)
class ClientOrder:
    """A client of a protocol of Kafka, chosen by `settings`."""

    topic: str
    settings: Mapping[str, str | int | bool]
    journal: Path


def subscribe(order: ClientOrder, begin: Event) -> None:
    """Connect, and once told consume until SIGTERM; then leave the group. What was processed is stored at once and committed often."""
    die_with_parent()
    kept = {"enable.auto.offset.store": False, "auto.commit.interval.ms": COMMIT_MS, "auto.offset.reset": "earliest"}
    consumer = Consumer({**DEFAULTS, **kept, **order.settings, "log_level": 0})
    consumer.list_topics(order.topic, CONNECT_S)  # connected and warm, as ours is
    begin.wait()
    consumer.subscribe([order.topic])
    journal = Journal(order.journal)
    with stopped_by(signal.SIGTERM) as stop:
        while not stop.is_set():
            messages = consumer.consume(MOST_MESSAGES, POLL_S)
            came = [(m.partition() or 0, m.offset() or 0) for m in messages if m.error() is None]
            if not came:
                continue
            journal.note(came)
            with suppress(KafkaException):  # some partitions were revoked while their offsets were under way
                consumer.store_offsets(offsets=[TopicPartition(order.topic, p, at + 1) for p, at in dict(came).items()])
    consumer.close()
    os._exit(0)


@dataclass(frozen=True, slots=True)
class OurOrder:
    """A plain consumer of ours; `run_folder` is where the incarnation is written."""

    site: Settings
    consumer: str
    run_folder: Path
    journal: Path


class JournalSink:
    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)

    def __call__(self, _topic: str, records: Iterable[Record]) -> None:
        self._journal.note((one.partition, message.offset() or 0) for one, message in records)


def consume(order: OurOrder, begin: Event) -> None:
    """Run a plain consumer with its own settings once told; SIGTERM asks it to leave."""
    die_with_parent()
    begin.wait()
    settings = ConsumerSettings(order.site, order.consumer, run_folder=str(order.run_folder))
    consumer = PlainConsumer(settings, JournalSink(order.journal))
    with leave_on_signals(consumer.leave):
        code = consumer.run()
    os._exit(code)


@dataclass(frozen=True, slots=True)
class CoordinatorOrder:
    """`looping`: decide as well; else the topic is only added."""

    site: Settings
    topic: str
    group: str
    looping: bool


def coordinate(order: CoordinatorOrder) -> None:
    """Until SIGTERM."""
    die_with_parent()
    with stopped_by(signal.SIGTERM) as stop, open_coordinator(order.site) as c:
        if order.topic not in transitions.topics(c):
            actor = Actor("command", "benchmark")
            topics.add_topic(c, order.topic, order.group, start=StartRule.EARLIEST, actor=actor)
        with looping(c) if order.looping else nullcontext():
            stop.wait()
    os._exit(0)
