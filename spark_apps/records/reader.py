"""On the executor: read a task's offset ranges from Kafka into Arrow batches.

Nothing here has an effect outside this process: no commit, no group membership. So a task may run twice, or twice at
once. A range ends at a position, never at a count, because compaction, aborted transactions and control records leave
gaps. After a control record at the end of a range no record may ever come; the log's end (EOF) then proves the position.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from numpy.typing import NDArray

from coordinator_tasks.core.errors import BadSettings
from spark_apps.errors import DataLost, ReadFailed
from spark_apps.records.batches import Range
from spark_apps.records.columns import Columns
from spark_apps.records.fast_fetch import FastClient
from spark_apps.records.fetching import Client, ConsumeClient, Fetched, FetchError, built
from spark_apps.records.librdkafka import Unfit, unfit
from spark_apps.records.settings_file import FILE_VARIABLE, SECRET_VARIABLE, load_settings

BATCH_BYTES = 2_000_000
MOST_MESSAGES = 20_000
FIRST_MESSAGES = 2_000
"""The first request, before the sizes of records are known."""
OVERHEAD_BYTES = 32
"""Approximate bytes of a record's other columns."""
POLL_S = 0.02
LOOKUP_TIMEOUT_S = 10.0
NUDGE_S = 10.0
CUT_S = 35.0
"""Seconds that a log has to end at a position before it counts as cut.

A new leader may lag for 30 s (`replica.lag.time.max.ms`).
"""
MOST_DISCARDED = 20_000
"""Maximum skipped messages behind the ends of finished ranges; then those partitions are fetched no more."""
GROUP = "assigned-kafka-reader"

FIXED_SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # a missing offset is never skipped silently
}
DEFAULT_SETTINGS: Mapping[str, Any] = {
    "group.id": GROUP,  # the client requires a group; the topic's group replaces it
    "client.id": "assigned-kafka",
    "isolation.level": "read_uncommitted",  # the default of Kafka and Spark; librdkafka's is read_committed
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 5,
    # Enough to keep a reader busy, and no more: records beyond a range's end are thrown away. With 20,000 messages of
    # 1 KB ahead, more than half of a batch's size was fetched in vain in addition.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 4_096,
    "log.connection.close": False,
}

# librdkafka's error codes; the Python client names them with an underscore.
_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)  # noqa: SLF001
_DAMAGED = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED})  # noqa: SLF001
"""The client cannot decode a batch of records, and may continue behind the batch as if it were absent."""
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
    """The work of one task. Spark sends the job with the task, so it holds no secret.

    `kafka`: the consumer's and the topic's settings of the client; `options`: the source's, which override the file's.
    """

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
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Kept:
    """A Kafka client of this worker process, and its settings."""

    key: tuple[tuple[str, Any], ...]
    client: Client


_idle: dict[tuple[tuple[str, Any], ...], _Kept] = {}


def client_settings(
    kafka: Mapping[str, str], settings_file: str, options: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return all settings of the executor's client, in rising priority.

    Defaults, the job's, the file's, the options, the fixed ones.

    Raises `BadSettings` if a log-in by password has no password: librdkafka would try until the time-out.
    """
    settings = {**DEFAULT_SETTINGS, **kafka, **load_settings(settings_file), **options, **FIXED_SETTINGS}
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))).upper()
    by_password = mechanism == "PLAIN" or mechanism.startswith("SCRAM-")
    if (
        "SASL" in str(settings.get("security.protocol", "")).upper()
        and by_password
        and not settings.get("sasl.password")
    ):
        raise BadSettings(
            f"Kafka asks for a log-in by {mechanism}, and the executors have no sasl.password: name a file with it by the option "
            f"kafkaSettingsFile, or set {FILE_VARIABLE} or {SECRET_VARIABLE} for them"
        )
    return settings


def read(job: Job) -> Iterator[pa.RecordBatch]:
    """Yield the records of the job's ranges in batches of about `BATCH_BYTES`.

    Raises `DataLost`, `BadSettings`, or `ReadFailed` after `progress_timeout_s` without progress or when Kafka refuses.
    """
    kept = _take(client_settings(job.kafka, job.settings_file, job.options))
    try:
        yield from _Reading(job, kept).batches()
        kept.client.unassign()
    except BaseException as error:
        _close(kept.client)
        if isinstance(error, KafkaException):
            raise ReadFailed(f"topic {job.topic} cannot be read: {_shown(error.args[0])}") from error
        raise
    _idle.setdefault(kept.key, kept)


def _take(settings: Mapping[str, Any]) -> _Kept:
    """Return an idle client of this process with these settings, or a new client. The caller is the only user."""
    key = tuple(sorted(settings.items(), key=lambda item: item[0]))
    kept = _idle.pop(key, None)
    if kept is not None:
        kept.client.complaints.clear()
        return kept
    return _Kept(key, _new_client(settings, fast=not unfit()))


def _new_client(settings: Mapping[str, Any], *, fast: bool) -> Client:
    return built(lambda: FastClient(settings) if fast else ConsumeClient(settings))


def _close(client: Client) -> None:
    try:
        client.close()
    except (KafkaException, RuntimeError):
        log.exception("a Kafka client could not be closed")


class _Reading:
    """One run over a job's ranges with one client.

    `_position` and `_end` are by partition number; `_end` is 0 for a partition without an open range.
    """

    def __init__(self, job: Job, kept: _Kept) -> None:
        self._job = job
        self._kept = kept
        self._open = {one.partition: one for one in job.ranges if one.size > 0}
        places = max((one.partition for one in job.ranges), default=0) + 1
        self._position, self._end, self._epoch = (np.zeros(places, np.int64) for _ in range(3))
        for one in job.ranges:
            self._position[one.partition], self._epoch[one.partition] = one.start, one.token_epoch
            self._end[one.partition] = one.end if one.size > 0 else 0
        self._columns = Columns(job.include_headers, job.include_assignment, job.consumer, job.incarnation)
        self._bytes_per_message = BATCH_BYTES / FIRST_MESSAGES
        self._discarded = 0
        self._assigned_at = 0.0
        self._damaged: set[tuple[int, int]] = set()
        self._at_end: set[int] = set()  # partitions whose log's end the client has reached

    @property
    def _client(self) -> Client:
        return self._kept.client

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._assign()
        progress_at = time.monotonic()
        waiting: list[pa.RecordBatch] = []
        size = 0
        while self._open:
            before = int(self._position.sum())
            for batch, its_size in self._fetch():
                if waiting and size + its_size > BATCH_BYTES:
                    yield _joined(waiting)
                    waiting, size = [], 0
                waiting.append(batch)
                size += its_size
                if size >= BATCH_BYTES * 3 // 4:
                    yield _joined(waiting)
                    waiting, size = [], 0
            now = time.monotonic()
            if int(self._position.sum()) > before:
                progress_at = now
            elif now - progress_at > self._job.progress_timeout_s:
                raise self._stalled()
            # Later each time: a client that skips aborted records begins with them again.
            if now - max(progress_at, self._assigned_at) > max(self._nudge_s, self._assigned_at - progress_at):
                self._nudge(progress_at, now)
            elif self._discarded > MOST_DISCARDED:
                self._assign()
        if waiting:
            yield _joined(waiting)

    def _assign(self) -> None:
        """Fetch only the open ranges, from their positions on.

        Never `pause` or `seek` instead: if either is combined with `consume` while messages are under way, librdkafka 2.16
        sometimes stops delivering the other partitions.
        """
        self._client.assign(self._job.topic, {p: int(self._position[p]) for p in self._open})
        self._assigned_at = time.monotonic()
        self._discarded = 0

    def _nudge(self, since: float, now: float) -> None:
        """Nothing has come since `since`: look for cut logs, and ask again; the second time with another client.

        When its only broker was frozen for a while, a client (librdkafka 2.16) may never fetch some partition again,
        even after a new assignment.
        """
        if now - since > min(CUT_S, self._job.progress_timeout_s / 2):
            self._miss_cut()
        if self._assigned_at > since:
            self._replace_client(fast=isinstance(self._client, FastClient))
        self._assign()

    def _replace_client(self, *, fast: bool) -> None:
        old = self._client
        self._kept.client = _new_client(dict(self._kept.key), fast=fast)
        self._kept.client.complaints.extend(old.complaints)
        _close(old)

    @property
    def _nudge_s(self) -> float:
        """Ask again for the first time after so long without progress; well within the time limit."""
        return min(NUDGE_S, self._job.progress_timeout_s / 4)

    def _next(self) -> Fetched:
        """Return the next messages. A fetch waits for the requested number, so never ask for more than can come.

        After a record from behind a range's end, many more such records may come before the wanted records, or none.
        """
        left = sum(one.end - int(self._position[p]) for p, one in self._open.items())
        most = max(1, min(MOST_MESSAGES, int(BATCH_BYTES / self._bytes_per_message)))
        if not self._discarded:
            return self._client.fetch(min(left, most), POLL_S)
        here = self._client.fetch(most, 0.0)
        if here.partitions.size or here.problems:
            return here
        with here:
            return self._client.fetch(1, POLL_S)

    def _fetch(self) -> list[tuple[pa.RecordBatch, int]]:
        """The wanted records of a fetch, in batches of at most about `BATCH_BYTES`, with their sizes."""
        try:
            fetched = self._next()
        except Unfit as reason:
            self._read_by_consume(reason)
            return []
        with fetched:
            for problem in fetched.problems:  # before later records move the position
                self._miss_damaged(problem)
            chosen = self._sift(fetched)
            sizes = fetched.sizes[chosen] + OVERHEAD_BYTES
            if chosen.size:
                self._bytes_per_message = float(sizes.mean())
            found = [(self._build(fetched, chosen[part]), int(sizes[part].sum())) for part in _parts(sizes)]
        if self._job.include_headers and found:
            found = [part for batch, _ in found for part in _with_headers(batch)]
            self._bytes_per_message = sum(size for _, size in found) / chosen.size
        for problem in fetched.problems:
            self._judge(problem)
        return found

    def _read_by_consume(self, reason: Unfit) -> None:
        """Continue from the positions with the other client: the library's layout is not the expected one."""
        log.warning("records are read by consume() from here on: %s", reason)
        self._replace_client(fast=False)
        self._assign()

    def _build(self, fetched: Fetched, chosen: NDArray[np.int64]) -> pa.RecordBatch:
        records = fetched.records(chosen, self._job.include_headers)
        return self._columns.build(self._job.topic, records, self._epoch[records.partitions])

    def _sift(self, fetched: Fetched) -> NDArray[np.int64]:
        """Return the indexes of the records of open ranges; moves the positions, and closes finished ranges."""
        partitions, offsets = fetched.partitions, fetched.offsets
        inside = np.flatnonzero(partitions < self._end.size)
        places, offsets = partitions[inside], offsets[inside]
        wanted = (offsets < self._end[places]) & (offsets >= self._position[places])
        self._discarded += partitions.size - int(wanted.sum())
        # The records of a partition come in the order of their offsets, so the last record gives the position.
        reached = self._position.copy()
        reached[places] = offsets + 1
        for partition in np.flatnonzero(reached > self._position).tolist():
            self._reach(partition, int(reached[partition]))
        return inside[wanted]

    def _reach(self, partition: int, position: int) -> None:
        one = self._open.get(partition)
        if one is None:
            return
        self._position[partition] = max(int(self._position[partition]), min(position, one.end))
        if position >= one.end:
            self._end[partition] = 0
            del self._open[partition]

    def _judge(self, problem: FetchError) -> None:
        """Raise for an error that waiting cannot mend; any other error counts towards the time limit."""
        error, code = problem.error, problem.error.code()
        if code == _EOF:
            self._reach(problem.partition, problem.offset)
            self._at_end.add(problem.partition)
        elif code in _OUT_OF_RANGE:
            if problem.partition in self._open:
                self._recover(self._open[problem.partition])
        elif code in _FINAL:
            raise ReadFailed(f"topic {self._job.topic} cannot be read: {_shown(error)}")
        else:
            self._client.complaints.append(error)

    def _miss_damaged(self, problem: FetchError) -> None:
        """Records of an open range are damaged: raise `DataLost`, or log it once."""
        one, place = self._open.get(problem.partition), (problem.partition, problem.offset)
        if one is None or problem.error.code() not in _DAMAGED or place in self._damaged:
            return
        if problem.offset < one.end:
            self._damaged.add(place)
            self._lost(one, f"the records at offset {problem.offset} are damaged ({_shown(problem.error)})")

    def _miss_cut(self) -> None:
        """Look for a log that was cut at the position of a range. The log ends there without an error."""
        for partition in sorted(self._at_end & self._open.keys()):
            with suppress(KafkaException):  # found out at another time
                first, last = self._client.bounds(self._job.topic, partition, LOOKUP_TIMEOUT_S)
                if 0 <= last <= self._position[partition]:
                    self._lose(self._open[partition], first, last)

    def _recover(self, one: Range) -> None:
        """The position is not in the log: raise `DataLost`, or log it and continue with the remaining records."""
        self._lose(one, *self._client.bounds(self._job.topic, one.partition, LOOKUP_TIMEOUT_S))
        if self._open:
            self._assign()

    def _lose(self, one: Range, first: int, last: int) -> None:
        """The range lost records.

        Raise `DataLost`, or move its position to the log's records from `first` to before `last`.
        """
        position = int(self._position[one.partition])
        if position < first:
            resumed = min(first, one.end)
            problem = f"offsets {position} to {resumed - 1} are gone, the log begins at {first}"
        elif position < last:
            resumed = position
            problem = (
                f"offset {position} is refused although the log has {first} to {last - 1} (truncated and written again, "
                "or recreated)"
            )
        else:
            resumed = one.end
            problem = (
                f"offsets {position} to {one.end - 1} are not there, the log ends at {last} (truncated or recreated)"
            )
        self._lost(one, problem)
        self._reach(one.partition, resumed)

    def _lost(self, one: Range, problem: str) -> None:
        lost = DataLost(self._job.topic, one.partition, range(one.start, one.end), problem)
        if self._job.fail_on_data_loss:
            raise lost
        log.warning("%s; continuing without them because failOnDataLoss is false", lost.what)

    def _stalled(self) -> ReadFailed:
        missing = ", ".join(
            f"partition {p}: at {self._position[p]}, wanted up to {one.end - 1}"
            for p, one in sorted(self._open.items())
        )
        complaints = self._client.complaints
        # "All brokers are down" only follows from the errors before it, and says less.
        telling = [one for one in complaints if one.name() != "_ALL_BROKERS_DOWN"] or complaints
        last = f"; Kafka's last word: {_shown(telling[-1])}" if telling else ""
        return ReadFailed(
            f"topic {self._job.topic} gave nothing for {self._job.progress_timeout_s:g} s ({missing}){last}; "
            "check that every executor reaches the brokers under their advertised addresses"
        )


def _parts(sizes: NDArray[np.int64]) -> list[slice]:
    """Slices of records of at most about `BATCH_BYTES` each, in order; a single record may be larger."""
    ends = np.cumsum(sizes)
    parts: list[slice] = []
    start, before = 0, 0
    while start < sizes.size:
        stop = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, "right")))
        parts.append(slice(start, stop))
        start, before = stop, int(ends[stop - 1])
    return parts


def _with_headers(batch: pa.RecordBatch) -> list[tuple[pa.RecordBatch, int]]:
    """Return parts of about `BATCH_BYTES` and their sizes: only a built column tells the size of the headers."""
    rows = max(1, BATCH_BYTES * batch.num_rows // batch.nbytes)
    parts = [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]
    return [(part, part.nbytes) for part in parts]


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _shown(error: object) -> str:
    return f"{error.name()}: {error.str()}" if isinstance(error, KafkaError) else str(error)
