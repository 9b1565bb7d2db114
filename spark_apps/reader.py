"""On the executor: read a task's offset ranges from Kafka into Arrow batches.

Nothing here has an effect outside this process: no commit, no group membership. So a task may run twice, or twice at
once. A range ends at a position, never at a count, because compaction, aborted transactions and control records leave
gaps; behind a control record at a range's tail no record may ever come, then the log's end (EOF) proves the position.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_apps.batches import Range
from spark_apps.columns import Columns
from spark_apps.errors import DataLost, ReadFailed
from spark_apps.settings_file import load_settings

BATCH_BYTES = 2_000_000
MOST_MESSAGES = 10_000
POLL_S = 0.02
LOOKUP_TIMEOUT_S = 10.0
NUDGE_S = 10.0
MOST_DISCARDED = 20_000
"""Messages behind the ends of finished ranges that we skip before we stop fetching those partitions."""
GROUP = "assigned-kafka-reader"

FIXED_SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # an offset that is not there is our business, never skipped silently
}
DEFAULT_SETTINGS: Mapping[str, Any] = {
    "group.id": GROUP,  # demanded by the client; with assign() it neither joins nor commits
    "client.id": "assigned-kafka",
    "isolation.level": "read_uncommitted",  # as Kafka's and Spark's default; librdkafka's own is read_committed
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4_194_304,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "log.connection.close": False,
}

# librdkafka's own error codes; the Python client names them with an underscore.
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001
_FINAL = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001
    }
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """What one task reads, and how. Travels with the task, so nothing in it is secret."""

    topic: str
    ranges: tuple[Range, ...]
    kafka: Mapping[str, str]
    settings_file: str = ""
    include_headers: bool = False
    include_assignment: bool = False
    consumer: str = ""
    incarnation: int = 0
    fail_on_data_loss: bool = True
    progress_timeout_s: float = 120.0


@dataclass(slots=True)
class _Kept:
    """A Kafka client of this worker process, and the last thing that it complained about."""

    key: tuple[tuple[str, Any], ...]
    client: Consumer
    complaints: list[KafkaError] = field(default_factory=list)


_idle: dict[tuple[tuple[str, Any], ...], _Kept] = {}


def client_settings(kafka: Mapping[str, str], settings_file: str) -> dict[str, Any]:
    """All settings of the executor's Kafka client; later ones win: defaults, options, the file, the fixed ones."""
    return {**DEFAULT_SETTINGS, **kafka, **load_settings(settings_file), **FIXED_SETTINGS}


def read(job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the records of the job's ranges in batches of about `BATCH_BYTES`.

    Raises `DataLost`, or `ReadFailed` when there was no progress for `progress_timeout_s` or Kafka refused.
    """
    kept = _take(client_settings(job.kafka, job.settings_file))
    try:
        yield from _Reading(job, kept).batches()
        kept.client.unassign()
    except BaseException as error:
        _close(kept)
        if isinstance(error, KafkaException):
            raise ReadFailed(f"topic {job.topic} cannot be read: {_shown(error.args[0])}") from error
        raise
    _idle.setdefault(kept.key, kept)


def _take(settings: Mapping[str, Any]) -> _Kept:
    """An idle client of this process with these settings, or a new one. Its taker is its only user."""
    key = tuple(sorted(settings.items(), key=lambda item: item[0]))
    kept = _idle.pop(key, None)
    if kept is not None:
        kept.complaints.clear()
        return kept
    complaints: list[KafkaError] = []
    try:
        client = Consumer({**settings, "error_cb": complaints.append}, logger=log)
    except KafkaException as error:
        raise ReadFailed(f"librdkafka refuses the Kafka settings: {_shown(error.args[0])}") from error
    return _Kept(key, client, complaints)


def _close(kept: _Kept) -> None:
    try:
        kept.client.close()
    except (KafkaException, RuntimeError):
        log.exception("a Kafka client could not be closed")


class _Reading:
    """One run over a job's ranges with one client."""

    def __init__(self, job: Job, kept: _Kept) -> None:
        self._job = job
        self._client = kept.client
        self._complaints = kept.complaints
        self._open = {one.partition: one for one in job.ranges if one.size > 0}
        self._position = {one.partition: one.start for one in job.ranges}
        self._epochs: dict[int | None, int] = {one.partition: one.token_epoch for one in job.ranges}
        self._columns = Columns(job.include_headers, job.include_assignment, job.consumer, job.incarnation)
        self._bytes_per_message = 200.0
        self._discarded = 0
        self._assigned_at = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._assign()
        progress_at = time.monotonic()
        waiting: list[Message] = []
        size = 0
        while self._open:
            before = sum(self._position.values())
            for message in self._sift(self._client.consume(self._wanted(), POLL_S)):
                waiting.append(message)
                size += len(message.value() or b"") + len(message.key() or b"") + 32
                if size >= BATCH_BYTES:
                    yield self._columns.build(self._job.topic, waiting, self._epochs)
                    self._bytes_per_message = size / len(waiting)
                    waiting, size = [], 0
            now = time.monotonic()
            if sum(self._position.values()) > before:
                progress_at = now
            elif now - progress_at > self._job.progress_timeout_s:
                raise self._stalled()
            if self._discarded > MOST_DISCARDED or now - max(progress_at, self._assigned_at) > self._nudge_s:
                self._assign()
        if waiting:
            yield self._columns.build(self._job.topic, waiting, self._epochs)

    def _assign(self) -> None:
        """Fetch the open ranges from their positions on, and nothing else.

        Never `pause` or `seek` instead: with messages under way, librdkafka 2.16 at times stops delivering the other
        partitions when either is combined with `consume`.
        """
        places = [TopicPartition(self._job.topic, p, self._position[p]) for p in sorted(self._open)]
        self._client.assign(places)
        self._assigned_at = time.monotonic()
        self._discarded = 0

    @property
    def _nudge_s(self) -> float:
        """After this long without progress, ask again from the positions; well within the time limit."""
        return min(NUDGE_S, self._job.progress_timeout_s / 4)

    def _wanted(self) -> int:
        """`consume` waits for as many as it is asked for, so never ask for more than can come."""
        left = sum(one.end - self._position[one.partition] for one in self._open.values())
        return max(1, min(left, MOST_MESSAGES, int(BATCH_BYTES / self._bytes_per_message)))

    def _sift(self, messages: Sequence[Message]) -> list[Message]:
        """Keep the messages of open ranges, move the positions, close the ranges that have reached their end."""
        wanted: list[Message] = []
        for message in messages:
            partition = message.partition()
            one = self._open.get(partition) if partition is not None else None
            error = message.error()
            if error is not None:
                self._judge(error, one)
            if one is None:
                self._discarded += 1
            if one is None or (error is not None and error.code() != _EOF):
                continue
            offset = message.offset() or 0
            if error is None and offset < one.end:
                wanted.append(message)
                offset += 1
            self._position[one.partition] = max(self._position[one.partition], min(offset, one.end))
            if offset >= one.end:
                del self._open[one.partition]
        return wanted

    def _judge(self, error: KafkaError, one: Range | None) -> None:
        """Raise for what waiting does not mend; anything else counts towards the time limit."""
        code = error.code()
        if code == _EOF:
            return
        if code in _OUT_OF_RANGE:
            if one is not None:
                self._recover(one)
            return
        if code in _FINAL:
            raise ReadFailed(f"topic {self._job.topic} cannot be read: {_shown(error)}")
        self._complaints.append(error)

    def _recover(self, one: Range) -> None:
        """The position is not in the log: end with `DataLost`, or report it and go on with what is still there."""
        place = TopicPartition(self._job.topic, one.partition)
        first, last = self._client.get_watermark_offsets(place, timeout=LOOKUP_TIMEOUT_S)
        position = self._position[one.partition]
        if position < first:
            resumed = min(first, one.end)
            problem = f"offsets {position} to {resumed - 1} are gone, the log begins at {first}"
        else:
            resumed = one.end
            problem = (
                f"offsets {position} to {one.end - 1} are not there, the log ends at {last} (truncated or re-created)"
            )
        self._lost(one, problem)
        self._position[one.partition] = resumed
        if resumed >= one.end:
            del self._open[one.partition]
        if self._open:
            self._assign()

    def _lost(self, one: Range, problem: str) -> None:
        text = f"topic {self._job.topic}, partition {one.partition}, planned {one.start} to {one.end - 1}: {problem}"
        if self._job.fail_on_data_loss:
            raise DataLost(f"{text}; set failOnDataLoss=false to go on without them")
        log.warning("%s; going on without them because failOnDataLoss is false", text)

    def _stalled(self) -> ReadFailed:
        missing = ", ".join(
            f"partition {p}: at {self._position[p]}, wanted up to {one.end - 1}"
            for p, one in sorted(self._open.items())
        )
        last = f"; Kafka's last word: {_shown(self._complaints[-1])}" if self._complaints else ""
        return ReadFailed(
            f"topic {self._job.topic} gave nothing for {self._job.progress_timeout_s:g} s ({missing}){last}; "
            "check that every executor reaches the brokers under their advertised addresses"
        )


def _shown(error: object) -> str:
    return f"{error.name()}: {error.str()}" if isinstance(error, KafkaError) else str(error)
