"""Reads from Kafka without a Python object for each record: librdkafka's queue, copied into Arrow columns in bulk.

The reader uses `consume()` instead if `librdkafka.unfit` names a reason, or if a fetch finds a record's time at another
place (`Unfit`). Messages are destroyed at the end of a fetch's block, and no address is kept after that. A client is
made in the process that uses it. Only one thread at a time uses a client, and runs its callbacks.
"""

import ctypes
from collections import deque
from collections.abc import Mapping
from ctypes import c_int, c_int64
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from numpy.typing import NDArray
from pyarrow._compute import call_function  # pyarrow.compute spends 0.3 s on making its wrappers

from coordinator_tasks.library_log import LIBRARY_LOG
from spark_apps.records.columns import Records, header_column, number_column
from spark_apps.records.fetching import FetchError
from spark_apps.records.librdkafka import (
    CONSUMER,
    ON_ERROR,
    ON_LOG,
    ROW,
    Unfit,
    headers_of,
    library,
    new_handle,
    rows_at,
)

_LEVELS = (50, 50, 50, 40, 30, 20, 20, 10)  # syslog's severities as Python's levels


class FastClient:
    """`fetching.Client` on librdkafka itself. Make a client only where `unfit` is empty."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.complaints: list[KafkaError] = []
        self._library = library()
        # Kept as attributes: librdkafka calls them as long as the handle exists.
        self._callbacks = (ON_ERROR(self._on_error), ON_LOG(_on_log))
        conf = self._library.conf_new()
        self._library.conf_set_error_cb(conf, self._callbacks[0])
        self._library.conf_set_log_cb(conf, self._callbacks[1])
        texts = {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()
        }
        self._handle = new_handle(self._library, CONSUMER, conf, {**texts, "log.queue": "true"})
        self._library.poll_set_consumer(self._handle)
        self._library.set_log_queue(self._handle, None)  # run with the errors, in our own thread
        self._queue = self._library.queue_get_consumer(self._handle)
        self._messages = np.zeros(1, np.int64)

    def _on_error(self, _handle: int, code: int, reason: bytes | None, _opaque: int) -> None:
        self.complaints.append(KafkaError(code, (reason or b"").decode(errors="replace")))

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        places = self._library.topic_partition_list_new(len(positions))
        name = topic.encode()
        try:
            for partition, offset in sorted(positions.items()):
                self._library.topic_partition_list_add(places, name, partition)
                self._library.topic_partition_list_set_offset(places, name, partition, offset)
            self._checked(self._library.assign(self._handle, places))
        finally:
            self._library.topic_partition_list_destroy(places)

    def unassign(self) -> None:
        self._checked(self._library.assign(self._handle, None))

    def fetch(self, most: int, timeout_s: float) -> "FastFetched":
        if self._messages.size < most:
            self._messages = np.zeros(most, np.int64)
        place = self._messages.ctypes.data
        count = self._library.consume_batch_queue(self._queue, int(timeout_s * 1000), place, most)
        if count < 0:
            self._checked(self._library.last_error())
        return FastFetched(self._library, self._messages[: max(0, count)].copy())

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        first, last = c_int64(), c_int64()
        limits = (ctypes.byref(first), ctypes.byref(last), int(timeout_s * 1000))
        self._checked(self._library.query_watermark_offsets(self._handle, topic.encode(), partition, *limits))
        return first.value, last.value

    def close(self) -> None:
        self._library.consumer_close(self._handle)
        self._library.queue_destroy(self._queue)
        self._library.destroy(self._handle)

    def _checked(self, code: int) -> None:
        if code:
            raise KafkaException(KafkaError(code, self._library.err2str(code).decode()))


class FastFetched:
    """`fetching.Fetched` of messages at addresses; the messages are destroyed at the end of the block."""

    def __init__(self, library: SimpleNamespace, messages: NDArray[np.int64]) -> None:
        self._library = library
        self._messages = messages
        self.problems: list[FetchError] = []
        try:
            self._read()
        except BaseException:
            self._destroy()
            raise

    def _read(self) -> None:
        rows = rows_at(self._messages) if self._messages.size else np.empty(0, ROW)
        good = rows["error"] == 0
        if not good.all():
            self.problems = [self._problem(index, rows[index]) for index in np.flatnonzero(~good).tolist()]
            rows = rows[good]
        self._addresses = self._messages[good]
        self._rows = rows
        self.partitions: NDArray[np.int32] = rows["partition"]
        self.offsets: NDArray[np.int64] = rows["offset"]
        self.sizes: NDArray[np.int64] = rows["key_size"] + rows["value_size"]
        for index in {0, len(rows) - 1} if len(rows) else ():
            self._check_time(int(self._addresses[index]), rows[index])

    def _problem(self, index: int, row: Any) -> FetchError:
        code = int(row["error"])
        reason = self._library.message_errstr(int(self._messages[index])) or b""
        return FetchError(KafkaError(code, reason.decode(errors="replace")), int(row["partition"]), int(row["offset"]))

    def _check_time(self, message: int, row: Any) -> None:
        kind = c_int()
        time_ms = self._library.message_timestamp(message, ctypes.byref(kind))
        if (time_ms, kind.value) != (int(row["time_ms"]), int(row["kind"])):
            raise Unfit(f"a record's time is {time_ms} (kind {kind.value}) and was read as {row['time_ms']}")

    def records(self, chosen: NDArray[np.int64], include_headers: bool) -> Records:
        rows = self._rows if chosen.size == self._rows.size else self._rows[chosen]  # the former in most cases
        addresses = self._addresses[chosen].tolist() if include_headers else ()
        return Records(
            keys=_copied(rows["key"], rows["key_size"]),
            values=_copied(rows["value"], rows["value_size"]),
            partitions=np.ascontiguousarray(rows["partition"]),
            offsets=np.ascontiguousarray(rows["offset"]),
            times_ms=np.ascontiguousarray(rows["time_ms"]),
            kinds=np.ascontiguousarray(rows["kind"]),
            headers=header_column([headers_of(self._library, one) for one in addresses]) if include_headers else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._destroy()

    def _destroy(self) -> None:
        messages, self._messages = self._messages, np.empty(0, np.int64)
        deque(map(self._library.message_destroy, messages.tolist()), maxlen=0)


def _copied(addresses: NDArray[np.int64], sizes: NDArray[np.int64]) -> pa.Array:
    """Return the bytes at these addresses as one binary column; address 0 is null. At most 2 GiB in all."""
    there = np.flatnonzero(addresses)
    if not there.size:
        return pa.nulls(len(addresses), pa.binary())
    order = there[np.argsort(addresses[there], kind="stable")]
    first = int(addresses[order[0]])
    # The bytes between the pieces become elements, too; they are not taken.
    bounds = np.empty(2 * order.size + 1, np.int64)
    bounds[0:-1:2] = addresses[order] - first
    bounds[1::2] = bounds[0:-1:2] + sizes[order]
    bounds[-1] = bounds[-2]
    memory = pa.foreign_buffer(first, int(bounds[-1]))
    pieces = pa.Array.from_buffers(pa.large_binary(), 2 * order.size, [None, pa.py_buffer(bounds), memory], 0)
    indexes = np.zeros(len(addresses), np.int64)
    indexes[order] = np.arange(0, 2 * order.size, 2)
    taken = call_function("take", [pieces, number_column(indexes, addresses != 0)])
    validity, ends, data = taken.buffers()
    short = np.frombuffer(ends, np.int64, len(taken) + 1).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(taken), [validity, pa.py_buffer(short), data], taken.null_count)


def _on_log(_handle: int, severity: int, facility: bytes, text: bytes) -> None:
    LIBRARY_LOG.log(_LEVELS[severity], "%s: %s", facility.decode(errors="replace"), text.decode(errors="replace"))
