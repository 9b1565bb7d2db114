"""A consumer without Spark: the same agent and protocol, with a Kafka client, and a function as the sink.

    python -m spark_apps.plain --consumer a --cluster c --zookeeper host:2181 --kafka host:9092 --sink rows.jsonl

Tests and benchmarks use this consumer. It also shows which parts a consumer needs besides the agent.
"""

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from coordinator_tasks import logs
from coordinator_tasks.core.errors import BadSettings, CoordinatorError, Refused
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.core.text.partition_text import named
from coordinator_tasks.library_log import LIBRARY_LOG
from coordinator_tasks.logs import within
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.process import consumer_process
from spark_apps.agent.process.consumer_process import (
    ConsumerSettings,
    LeaveRequests,
    Process,
    leave_on_signals,
    open_process,
)
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.arguments import add_consumer_arguments, consumer_settings, set_up_logs
from spark_apps.dead_letters import DeadLettersRefused, OnError
from spark_apps.dead_letters.halving import Spans, inside
from spark_apps.dead_letters.recovery import Bad, Recovery, Site
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.delivery.lineage import Dataset, file_dataset
from spark_apps.errors import ReadFailed
from spark_apps.records.batches import Range
from spark_apps.topic_readers import TopicReader, TopicReaders, make_runner

POLL_S = 0.01
STARTING_POLL_S, STARTING_S = 0.003, 0.1  # `STARTING_POLL_S`: poll time while partitions start and `STARTING_S` after
ENDS_EVERY_S = 1.0
WARM_UP_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 30.0
STUCK_S = 5.0
SLOW_SINK_STUCK_S = 300.0  # a sink may be so slow that records wait this long in the client
AGAIN_S = 1.0
MOST_MESSAGES = 5_000

log = logging.getLogger(__name__)

Record: TypeAlias = tuple[Range, Message]
Sink: TypeAlias = Callable[[str, Sequence[Record]], None]
"""Takes a topic and the records of a batch, each with its range. The records have passed when the function returns."""


@dataclass(frozen=True, slots=True)
class Output:
    """Destination of records: a function; for exactly once, a store of rows and positions.

    `writes`: the output datasets for OpenLineage. `on_error`: what happens to records that the destination refuses.
    """

    sink: Sink | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    store: TransactionalSink | None = None
    hooks: Hooks | None = None
    writes: tuple[Dataset, ...] = ()
    on_error: OnError = field(default_factory=OnError)

    def __post_init__(self) -> None:
        if (self.store is not None) != (self.delivery is Delivery.EXACTLY_ONCE) or (self.sink is None) != bool(
            self.store
        ):
            raise Refused(
                "exactly once needs a transactional store, and any other delivery needs a function as the sink"
            )
        if self.hooks is not None and self.hooks.consuming:
            raise Refused(
                f"{type(self.hooks.consuming[0]).__name__} has an on_consume, and a plain consumer does not call it: only Spark's data "
                "source does; move its work into the sink, and give an interceptor without on_consume"
            )


class PlainTopic(TopicReader):
    """Reads one topic in a thread.

    The client fetches ahead from every ready partition. Each batch has the fetched records, and passes through the
    sink. If a partition must not be read now, its fetched records are dropped, and are fetched again later. An error of
    a partition or of the sink stops no other partition: `agent.ownership.failing` decides the retries.
    """

    def __init__(
        self,
        runner: TopicRunner,
        node: TopicNode,
        kafka: Mapping[str, str],
        output: Output,
        recovery: Recovery | None = None,
    ) -> None:
        """Raise `BadSettings` for settings that the Kafka client refuses."""
        super().__init__(runner)
        self._output = output
        self._recovery = recovery
        self._stop = threading.Event()
        # The client needs a group, whose coordinator it looks up; our account has rights on this group.
        self._settings = {**DEFAULTS, **node.properties, **kafka, **FIXED, "group.id": node.group_id}
        self._kafka = _client(self._settings)
        self._assigned: dict[int, int] = {}  # partition -> epoch of its holding when it was assigned
        self._again_at: dict[int, float] = {}  # partition that Kafka refused -> time of the retry
        self._batch = 0
        self._ends_at = 0.0
        self._starting_until = 0.0
        self._stuck_at = 0.0
        self._heard: set[int] = set()  # partitions with a message since their assignment
        self._polled_at = -inf
        # Stalled partition -> its position, and the time since when it has this position.
        self._waiting: dict[int, tuple[int, float]] = {}
        self._replaced_at = -inf
        self._thread = threading.Thread(
            target=within(self._run, topic=runner.topic), name=f"plain-{runner.topic}", daemon=True
        )
        self._thread.start()

    def end(self) -> bool:
        self._stop.set()
        self._thread.join(JOIN_TIMEOUT_S)
        return not self._thread.is_alive()

    def close(self) -> None:
        """End, even without a `halt`: if a consumer's id is in use, its readers never read."""
        if not self._stop.is_set():
            self.end()
        super().close()

    def _run(self) -> None:
        with suppress(KafkaException):  # the brokers may answer later, before anything has to be read
            self._warm_up()
        failed = False
        while not self._stop.is_set():
            try:
                if failed:
                    self._use_new_client()
                    self.runner.edit(lambda ownership: ownership.failing.reading_began())
                    failed = False
                self._read()
            except BaseException as error:  # only this topic fails
                failed = True
                log.exception("reading topic %s failed", self.runner.topic)
                self._stop.wait(self._failed(error))
        self._kafka.close()

    def _failed(self, error: BaseException) -> float:
        """Note the failure. Return the seconds until the topic is read again."""
        return self.runner.edit(lambda ownership: ownership.query_failed(f"{type(error).__name__}: {error}"))

    def _read(self) -> None:
        self._follow()
        messages = self._kafka.consume(MOST_MESSAGES, self._poll_s)
        came_at = time.monotonic()
        self._process(messages)
        self._polled_at = came_at if len(messages) < MOST_MESSAGES else -inf

    def _follow(self) -> None:
        """Assign the ready partitions to the client, and unassign the others."""
        now = time.monotonic()
        if now >= self._ends_at:
            self._ends_at = now + ENDS_EVERY_S
            self.runner.edit(lambda ownership: ownership.requests.want_ends())
        ready, starting = self.runner.see(lambda ownership: (self._ready(ownership), ownership.holdings.starting))
        if starting:
            self._starting_until = now + STARTING_S
        if now >= self._stuck_at:
            self._stuck_at = now + STUCK_S
            self._replace_stuck_client()
        epochs = {p: epoch for p, (epoch, _) in ready.items()}
        self._drop([p for p, epoch in self._assigned.items() if epochs.get(p) != epoch])
        missing = {p: position for p, (_, position) in ready.items() if p not in self._assigned}
        due = {p: position for p, position in missing.items() if now >= self._again_at.get(p, now)}
        if due:
            self._kafka.incremental_assign([TopicPartition(self.runner.topic, p, at) for p, at in due.items()])
            self._assigned |= {p: epochs[p] for p in due}

    def _drop(self, partitions: Collection[int]) -> None:
        """Unassign these partitions, and drop their fetched records."""
        gone = [p for p in partitions if p in self._assigned]
        if gone:
            self._kafka.incremental_unassign([TopicPartition(self.runner.topic, p) for p in gone])
        for partition in gone:
            del self._assigned[partition]
        self._heard -= set(gone)

    def _replace_stuck_client(self) -> None:
        """Replace the client if a partition has brought no records between two checks, and no records wait in the
        client.

        After its only broker was frozen for a while, a client (librdkafka 2.16) may never fetch a partition again, even
        if the partition is assigned again. With a slow sink, however, a partition's records may wait in the client
        behind others.
        """
        now, before, stalled = time.monotonic(), self._waiting, self.runner.see(self._stalled)
        self._waiting = {
            p: (at, before[p][1] if p in before and before[p][0] == at else now) for p, at in stalled.items()
        }
        stuck = sorted(
            p for p, (_, since) in self._waiting.items() if p in self._assigned and self._had_time(since, now)
        )
        if not stuck:
            return
        self._replaced_at = now
        log.warning("topic %s: partitions %s bring no records: using a new client", self.runner.topic, stuck)
        self._use_new_client()

    def _use_new_client(self) -> None:
        old, self._kafka = self._kafka, Consumer(self._settings, logger=LIBRARY_LOG)
        self._assigned.clear()
        self._heard.clear()
        threading.Thread(target=old.close, name=f"close-{self.runner.topic}", daemon=True).start()

    def _had_time(self, since: float, now: float) -> bool:
        """Return whether a poll has emptied the client since then, or more time has passed than a slow sink needs.

        Each client gets twice the time of all earlier clients, because a new client has to skip aborted records again.
        """
        began = max(since, self._replaced_at)
        idle = self._polled_at >= began + STUCK_S / 2 or now >= began + SLOW_SINK_STUCK_S
        return idle and now - began >= 2 * (self._replaced_at - since)

    @staticmethod
    def _stalled(ownership: TopicOwnership) -> dict[int, int]:
        """Return partition → position of stalled partitions, as long as Kafka reports the ends of their logs."""
        now, told_s, ready = time.monotonic(), STUCK_S + ENDS_EVERY_S, ownership.holdings.ready()
        stalled = {p: ready[p] for p in ownership.batches.stalled(STUCK_S)}
        return {
            p: h.position for p, h in stalled.items() if h.log.inflow is not None and now - h.log.inflow.at < told_s
        }

    def _warm_up(self) -> None:
        """Connect the client to the brokers before the first record is due, which takes up to a second."""
        topic = self._kafka.list_topics(self.runner.topic, timeout=WARM_UP_TIMEOUT_S).topics[self.runner.topic]
        leaders = {one.leader: partition for partition, one in topic.partitions.items()}
        for partition in leaders.values():
            self._kafka.get_watermark_offsets(TopicPartition(self.runner.topic, partition), timeout=WARM_UP_TIMEOUT_S)

    @property
    def _poll_s(self) -> float:
        """Return the time limit of a poll. While partitions start it is short, so that no start waits for a poll."""
        return STARTING_POLL_S if time.monotonic() < self._starting_until else POLL_S

    @staticmethod
    def _ready(ownership: TopicOwnership) -> dict[int, tuple[int, int]]:
        # The former owner has just read up to a released position; any other position is first compared with the log.
        known = {
            p: h
            for p, h in ownership.batches.readable().items()
            if h.log.offset is not None or h.grant.release is not None
        }
        return {p: (held.token.epoch, held.position) for p, held in known.items()}

    def _process(self, messages: Sequence[Message]) -> None:
        came: dict[int, list[Message]] = {}
        ends: dict[int, int] = {}
        refused: dict[int, KafkaError] = {}
        for message in messages:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
                if partition is None or partition < 0 or error.fatal():
                    raise ReadFailed(f"topic {self.runner.topic} cannot be read: {error.str()}")
                refused[partition] = error
                continue
            if partition is None or offset is None or partition in refused:
                continue  # after damaged records, the next records would hide the gap
            # At the log's end the position is behind control records, for which no message comes.
            ends[partition] = max(ends.get(partition, 0), offset + (error is None))
            if error is None:
                came.setdefault(partition, []).append(message)
        left = set(came)
        for group in self.runner.see(lambda ownership: _apart(ownership, ends)):
            ranges = self.runner.edit(partial(self._hand_out, ends={p: ends[p] for p in group}))
            passed = not ranges or self._pass(ranges, came)
            whole = {p for p, one in ranges.items() if passed and one.end == ends[p]}
            left = (left | ranges.keys()) - whole
        # Received records that have not passed would be missing in the next range, so fetch them again.
        self._drop(left)
        if refused:
            self._wait_for(refused)

    def _wait_for(self, refused: Mapping[int, KafkaError]) -> None:
        """Retry these partitions later.

        The agent compares their positions with the log, and stops a partition whose position is not in the log.
        """
        self._drop(refused.keys())
        self._again_at |= dict.fromkeys(refused, time.monotonic() + AGAIN_S)
        self.runner.edit(
            lambda ownership: ownership.requests.cannot_read({p: error.str() for p, error in refused.items()})
        )

    def _pass(self, ranges: Mapping[int, Range], came: Mapping[int, Sequence[Message]]) -> bool:
        """Pass a batch through the sink. Return False if the sink fails."""
        lost = self.runner.confirmed() if self._output.delivery is Delivery.AT_MOST_ONCE else frozenset()
        kept = [one for p, one in ranges.items() if p not in lost]
        records = [
            (one, m) for one in kept for m in came.get(one.partition, ()) if one.start <= (m.offset() or 0) < one.end
        ]
        try:
            self._deliver(records)
        except BaseException as error:  # user code in the sink
            log.exception("topic %s: the sink failed at %s", self.runner.topic, named(ranges))
            why = f"{type(error).__name__}: {error}"
            self.runner.edit(lambda ownership: ownership.batches.fail(ranges, why))
            return False
        self.runner.edit(lambda ownership: ownership.batches.cover(self._batch))
        return True

    def _deliver(self, records: Sequence[Record]) -> None:
        output, recovery, topic = self._output, self._recovery, self.runner.topic
        if output.store is None and recovery is None:
            self._sink(records)
            return
        writer, steps = self.runner.edit(lambda ownership: (ownership.writer, ownership.batches.adds()))
        if output.store is None and recovery is not None:
            recovery.deliver(writer, steps, lambda spans: self._sink(_within(records, spans)))
        elif output.store is not None:
            rows = table_of(topic, records)
            if recovery is not None and isinstance(output.store, DatabaseSink):
                refused = recovery.write(output.store, writer, steps, rows, Bad())
            else:
                refused = output.store.write(writer, steps, rows)
            self.runner.edit(lambda ownership: ownership.batches.refuse(refused))

    def _sink(self, records: Sequence[Record]) -> None:
        if self._output.sink is not None and records:
            self._output.sink(self.runner.topic, records)

    def _hand_out(self, ownership: TopicOwnership, ends: Mapping[int, int]) -> dict[int, Range]:
        held = ownership.batches.readable().items()
        ready = {p: h for p, h in held if p in ends and self._assigned.get(p) == h.token.epoch}
        for partition, one in ready.items():
            if partition in self._heard:  # an earlier batch has handed out all records of the last poll
                one.passes.empty(self._polled_at)
            elif ends[partition] <= one.position:
                one.passes.empty(time.monotonic())
        self._heard |= ready.keys()
        most = {p: h.position + (ownership.failing.most(p) or inf) for p, h in ready.items()}
        reached = {p: int(min(ends[p], most[p])) for p in ready}
        ranges = {p: Range(p, h.position, reached[p], h.token.epoch) for p, h in ready.items() if ends[p] > h.position}
        if ranges:
            self._batch += 1
            ownership.batches.hand_out(self._batch, tuple(ranges.values()))
        for partition in ends.keys() & self._again_at.keys():
            del self._again_at[partition]
            ownership.reports.clear(f"read {partition}")
        return ranges


def _apart(ownership: TopicOwnership, partitions: Collection[int]) -> list[Collection[int]]:
    """Return the partitions in groups. Each failed group is tried alone, after the other partitions."""
    failed = ownership.failing.due()
    others = [p for p in partitions if not any(p in group for group in failed)]
    groups = [others, *([p for p in partitions if p in group] for group in failed)]
    return [group for group in groups if group]


DEFAULTS = {"isolation.level": "read_uncommitted", "fetch.wait.max.ms": "10", "fetch.queue.backoff.ms": "5"}
FIXED = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "log.connection.close": "false",
}


class PlainTopics(TopicReaders[PlainTopic]):
    """Implements `topics.Topics`, with a reader for every wanted topic."""

    def __init__(self, process: Process, output: Output) -> None:
        super().__init__()
        self._process = process
        self._output = output
        self._refused = ""

    def appeared(self, topic: str, node: TopicNode) -> str:
        runner = make_runner(self._process, topic, node)
        runner.agree(self._output.delivery, self._output.store, self._output.hooks)
        try:
            recovery = self._recovery(runner) if self._output.on_error.recovers else None
            self._topics[topic] = PlainTopic(runner, node, self._process.settings.site.kafka, self._output, recovery)
        # This consumer cannot read the topic, and leaves with the reason.
        except (BadSettings, DeadLettersRefused) as error:
            runner.close()
            self._refused = f"topic {topic}: {error}"
            return self._refused
        self.tell_lineage(self._process, runner, self._output.writes)
        return ""

    def _recovery(self, runner: TopicRunner) -> Recovery:
        store = self._output.store
        if store is not None and not isinstance(store, DatabaseSink):
            raise DeadLettersRefused(f"a {type(store).__name__} cannot leave out bad records; use a DatabaseSink")
        return Site(access=self._process.records).recovery(runner, self._output.on_error, store)

    def failure(self) -> str:
        return self._refused

    def trouble(self) -> str:
        return ""


class PlainConsumer:
    """A plain consumer in this process: call `run` in one thread, and `leave` from any other thread."""

    def __init__(self, settings: ConsumerSettings, output: Sink | Output) -> None:
        self._settings = settings
        self._output = output if isinstance(output, Output) else Output(output)
        self._requests = LeaveRequests()
        self.process: Process | None = None

    def run(self) -> int:
        """Serve until a call of `leave`, or in the main thread until SIGTERM or SIGINT. Return the exit code.

        Raises the `CoordinatorError`s of the start. If `coordinator dead-letters replay` runs this program, replay the
        dead letters instead.
        """
        if consumer_process.stand_in is not None:
            return consumer_process.stand_in(self._settings, self._output)
        if threading.current_thread() is not threading.main_thread():
            return self._serve()
        with leave_on_signals(self.leave):
            return self._serve()

    def _serve(self) -> int:
        if not self._settings.topics:
            log.warning(
                "no topics are given, so this consumer takes every topic of the cluster; give --topics=orders,clicks-.*"
            )
        with open_process(self._settings) as process:
            topics = PlainTopics(process, self._output)
            self.process = process
            self._requests.hand_to(process.leave)
            try:
                return process.run(topics)
            finally:
                topics.close()

    def leave(self, within_s: float | None = None) -> None:
        self._requests.ask(within_s)


def _within(records: Sequence[Record], spans: Spans) -> list[Record]:
    is_inside = inside(spans)
    return [(one, message) for one, message in records if is_inside(one.partition, message.offset() or 0)]


def table_of(topic: str, records: Sequence[Record]) -> pa.Table:
    """Return the records as rows for a transactional store."""
    return pa.table(
        {
            "topic": pa.repeat(pa.scalar(topic), len(records)),
            "partition": pa.array([one.partition for one, _ in records], pa.int32()),
            "offset": pa.array([message.offset() for _, message in records], pa.int64()),
            "key": pa.array([message.key() for _, message in records], pa.binary()),
            "value": pa.array([message.value() for _, message in records], pa.binary()),
        }
    )


class FileSink:
    """Writes one JSON line per record: the consumer, the epoch and the time. Flushes after every batch.

    A process that is killed during a write may leave an incomplete line. The next process ends this line before writing
    its own first line, and reads the record again. Raises `Refused` for an unwritable file.
    """

    def __init__(self, path: str, consumer: str) -> None:
        self._consumer = consumer
        try:
            torn = path != "-" and _is_torn(Path(path))
            self._file: TextIO = sys.stdout if path == "-" else Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - as long as the process
        except OSError as error:
            raise Refused(
                f"the sink {path} cannot be written: {error.strerror}; name a file in a folder that is there and yours"
            ) from error
        if torn:
            self._file.write("\n")
        self._lock = threading.Lock()

    def __call__(self, topic: str, records: Sequence[Record]) -> None:
        now = time.time()
        lines = [json.dumps(self._row(topic, one, message, now)) + "\n" for one, message in records]
        with self._lock:
            self._file.write("".join(lines))
            self._file.flush()

    def _row(self, topic: str, one: Range, message: Message, now: float) -> dict[str, Any]:
        return {
            "consumer": self._consumer,
            "topic": topic,
            "partition": one.partition,
            "epoch": one.token_epoch,
            "offset": message.offset(),
            "produced_at": message.timestamp()[1] / 1000,
            "processed_at": now,
            "value": (message.value() or b"").decode("utf-8", "replace"),
        }


def _is_torn(file: Path) -> bool:
    """Return whether the file's last line is incomplete."""
    if not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read() != b"\n"


def _client(settings: dict[str, Any]) -> Consumer:
    """Return the Kafka library's client; raises `BadSettings` for refused settings."""
    try:
        return Consumer(settings, logger=LIBRARY_LOG)
    except (KafkaException, ValueError, TypeError) as error:
        cause = error.args[0] if error.args else error
        why = cause.str() if isinstance(cause, KafkaError) else str(error)
        raise BadSettings(f"the Kafka settings are not usable: {why}; correct them") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 after a clean leave, 1 after a forced leave, 2 after a failed start."""
    parser = argparse.ArgumentParser(prog="python -m spark_apps.plain", description="A consumer without Spark.")
    add_consumer_arguments(parser)
    parser.add_argument("--sink", default="-", help="a file for one JSON line per record; - for standard output")
    given = parser.parse_args(arguments)
    try:
        settings = consumer_settings(given)
        set_up_logs(settings)
        written = () if given.sink == "-" else (file_dataset(given.sink),)
        return PlainConsumer(settings, Output(FileSink(given.sink, settings.consumer), writes=written)).run()
    except CoordinatorError as error:
        logs.say_error(error.told)
        return 2


if __name__ == "__main__":
    sys.exit(main())
