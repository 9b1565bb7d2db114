"""The C API of the librdkafka loaded by confluent-kafka, and a check of its version and layout.

rdkafka.h documents everything used here, except the place of a record's time stamp: its function would need a call for
each record. So `unfit` checks the library's version, its functions, and messages of known content, once in each
process.
"""

import ctypes
import logging
import os
import sys
from collections.abc import Mapping
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, cimpl
from numpy.typing import NDArray

from spark_apps.records.columns import Headers

TESTED = frozenset({0x021000FF})
"""The versions of librdkafka whose messages were compared with `consume()`: 2.16.0."""
SWITCH = "ASSIGNED_KAFKA_FAST_FETCH"
"""An environment variable: `false` makes every reader use `consume()`."""

_ERROR_BYTES = 512
ROW = np.dtype(
    {
        # rd_kafka_message_t, 72 bytes; then, in librdkafka's rd_kafka_msg_t, the kind of the time, and the time.
        "names": ["error", "partition", "value", "value_size", "key", "key_size", "offset", "kind", "time_ms"],
        "formats": ["<i4", "<i4", "<i8", "<i8", "<i8", "<i8", "<i8", "<i4", "<i8"],
        "offsets": [0, 16, 24, 32, 40, 48, 56, 92, 96],
        "itemsize": 104,
    }
)
_ALIGNMENT = 8
CONSUMER, _PRODUCER = 1, 0
_CONF_OK = 0
_PURGE_QUEUE = 1
_COPY = 2
_EVENT_DELIVERY = 1
_NO_OFFSET = -1001

ON_ERROR = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
ON_LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "version": (c_int,),
    "last_error": (c_int,),
    "err2str": (c_char_p, c_int),
    "conf_new": (c_void_p,),
    "conf_destroy": (None, c_void_p),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "conf_set_error_cb": (None, c_void_p, ON_ERROR),
    "conf_set_log_cb": (None, c_void_p, ON_LOG),
    "conf_set_events": (None, c_void_p, c_int),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "set_log_queue": (c_int, c_void_p, c_void_p),
    "poll_set_consumer": (c_int, c_void_p),
    "destroy": (None, c_void_p),
    "topic_partition_list_new": (c_void_p, c_int),
    "topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "topic_partition_list_set_offset": (c_int, c_void_p, c_char_p, c_int32, c_int64),
    "topic_partition_list_destroy": (None, c_void_p),
    "assign": (c_int, c_void_p, c_void_p),
    "query_watermark_offsets": (c_int, c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    "queue_get_consumer": (c_void_p, c_void_p),
    "queue_get_main": (c_void_p, c_void_p),
    "queue_poll": (c_void_p, c_void_p, c_int),
    "queue_destroy": (None, c_void_p),
    "consume_batch_queue": (c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "consumer_close": (c_int, c_void_p),
    "produceva": (c_void_p, c_void_p, c_void_p, c_size_t),
    "error_destroy": (None, c_void_p),
    "purge": (c_int, c_void_p, c_int),
    "event_message_next": (c_void_p, c_void_p),
    "event_destroy": (None, c_void_p),
}
_QUICK_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    # These calls are shorter than a release of the interpreter's lock.
    "message_destroy": (None, c_void_p),
    "message_errstr": (c_char_p, c_void_p),
    "message_timestamp": (c_int64, c_void_p, POINTER(c_int)),
    "message_headers": (c_int, c_void_p, POINTER(c_void_p)),
    "header_get_all": (c_int, c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t)),
}

log = logging.getLogger(__name__)


class Unfit(Exception):
    """This module was not tested with the library; read with `consume()` instead."""


@lru_cache(maxsize=1)
def unfit() -> str:
    """Return why this process cannot read records from librdkafka's queue; empty if it can. Logs the reason once."""
    try:
        _check_platform()
        _check_version(library())
        _check_message(library())
    except (Unfit, KafkaException, OSError, AttributeError) as error:
        log.warning("records are read by consume(), which takes about twice the time: %s", error)
        return str(error)
    return ""


@lru_cache(maxsize=1)
def library() -> SimpleNamespace:
    """Return the functions by their names without `rd_kafka_`; `AttributeError` if a function is missing.

    The lookup goes through confluent-kafka's module, so the functions are of the loaded library.
    """
    found = SimpleNamespace()
    for loaded, table in (
        (ctypes.CDLL(cimpl.__file__), _FUNCTIONS),
        (ctypes.PyDLL(cimpl.__file__), _QUICK_FUNCTIONS),
    ):
        for name, (result, *arguments) in table.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(found, name, function)
    return found


def _check_platform() -> None:
    if os.environ.get(SWITCH, "").strip().lower() == "false":
        raise Unfit(f"{SWITCH} is false")
    if sys.byteorder != "little" or ctypes.sizeof(c_void_p) != 8 or not sys.platform.startswith("linux"):
        raise Unfit("this is not a 64-bit little-endian Linux")


def _check_version(lib: SimpleNamespace) -> None:
    version, told = lib.version(), confluent_kafka.libversion()[1]
    if version != told:
        raise Unfit(f"confluent-kafka names version {told:#x} of librdkafka, but the loaded one is {version:#x}")
    if version not in TESTED:
        raise Unfit(f"librdkafka {confluent_kafka.libversion()[0]} was not tested with this")


class _Field(ctypes.Structure):
    """rd_kafka_vu_t: one field of a produced message."""

    _fields_ = (("type", c_int), ("values", c_int64 * 8))


_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _TIME, _HEADER = 1, 3, 4, 5, 7, 8, 9
_KNOWN = ((3, b"a value of a known message", b"", 1_234_567_890_123), (70_000, b"", b"the key of another one", 42))
"""Partition, value, key and time of the check's messages; an empty value or key is null."""


def _check_message(lib: SimpleNamespace) -> None:
    """Make messages of known content, take them back undelivered, and read them. No message leaves the process."""
    conf = lib.conf_new()
    lib.conf_set_events(conf, _EVENT_DELIVERY)
    handle = new_handle(lib, _PRODUCER, conf, {"log_level": "0"})
    queue = lib.queue_get_main(handle)
    try:
        for known in _KNOWN:
            _produce(lib, handle, *known)
            lib.purge(handle, _PURGE_QUEUE)
            event = lib.queue_poll(queue, 1000)
            try:
                _compare(lib, event and lib.event_message_next(event), known)
            finally:
                lib.event_destroy(event)
    finally:
        lib.queue_destroy(queue)
        lib.destroy(handle)


def _produce(lib: SimpleNamespace, handle: int, partition: int, value: bytes, key: bytes, time_ms: int) -> None:
    def at(data: bytes) -> int:
        return ctypes.cast(c_char_p(data), c_void_p).value or 0 if data else 0

    given: dict[int, tuple[int, ...]] = {
        _TOPIC: (at(b"layout-check"),),
        _PARTITION: (partition,),
        _VALUE: (at(value), len(value)),
        _KEY: (at(key), len(key)),
        _FLAGS: (_COPY,),
        _TIME: (time_ms,),
        _HEADER: (at(b"name"), at(b"text"), 4),
    }
    fields = (_Field * len(given))(*(_Field(kind, (c_int64 * 8)(*values)) for kind, values in given.items()))
    error = lib.produceva(handle, fields, len(fields))
    if error:
        lib.error_destroy(error)
        raise Unfit("librdkafka took no message for the check of its layout")


def _compare(lib: SimpleNamespace, message: int | None, known: tuple[int, bytes, bytes, int]) -> None:
    if not message:
        raise Unfit("librdkafka gave back no message for the check of its layout")
    partition, value, key, time_ms = known
    row = rows_at(np.array([message], np.int64))[0]
    names = ("error", "partition", "offset", "value_size", "key_size", "kind", "time_ms")
    numbers = (KafkaError._PURGE_QUEUE, partition, _NO_OFFSET, len(value), len(key), 1, time_ms)  # noqa: SLF001
    expected = dict(zip(names, numbers, strict=True))
    found = {name: int(row[name]) for name in expected}
    if found != expected:
        raise Unfit(f"librdkafka's messages look different: {expected} was read as {found}")
    texts = [row[name] and _peek(int(row[name]), int(row[f"{name}_size"])) for name in ("value", "key")]
    if texts != [value or 0, key or 0] or headers_of(lib, message) != [("name", b"text")]:
        raise Unfit(f"librdkafka's messages look different: {value!r} and {key!r} were read as {texts}")


def _peek(address: int, size: int) -> bytes | None:
    """Return the bytes at a possibly invalid address: reading memory as a file fails without ending the process."""
    try:
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except (OSError, OverflowError, ValueError):
        return None


def rows_at(messages: NDArray[np.int64]) -> NDArray[Any]:
    """The fields of the messages at these addresses, as one copy."""
    if (messages % _ALIGNMENT).any():
        raise Unfit("librdkafka's messages are not aligned")
    first = int(messages.min())
    memory = pa.foreign_buffer(first, int(messages.max()) - first + ROW.itemsize)
    # Overlapping cells at every possible begin of a message; the index picks the right cells.
    cells = np.ndarray(
        ((memory.size - ROW.itemsize) // _ALIGNMENT + 1,), f"V{ROW.itemsize}", buffer=memory, strides=(_ALIGNMENT,)
    )
    return cells[(messages - first) // _ALIGNMENT].view(ROW)


def headers_of(lib: SimpleNamespace, message: int) -> Headers:
    """The headers of one message, by the library's functions."""
    headers, name, value, size = c_void_p(), c_char_p(), c_void_p(), c_size_t()
    found: list[tuple[str, bytes | None]] = []
    if lib.message_headers(message, ctypes.byref(headers)) != 0:
        return found
    places = (ctypes.byref(name), ctypes.byref(value), ctypes.byref(size))
    while lib.header_get_all(headers, len(found), *places) == 0:
        text = None if value.value is None else ctypes.string_at(value.value, size.value)
        found.append(((name.value or b"").decode(errors="replace"), text))
    return found


def new_handle(lib: SimpleNamespace, kind: int, conf: int, settings: Mapping[str, str]) -> int:
    """Return a handle with these settings; raises `KafkaException` for a wrong setting."""
    said = ctypes.create_string_buffer(_ERROR_BYTES)
    handle: int | None = None
    if all(
        lib.conf_set(conf, name.encode(), text.encode(), said, _ERROR_BYTES) == _CONF_OK
        for name, text in settings.items()
    ):
        handle = lib.new(kind, conf, said, _ERROR_BYTES)
    if handle is None:
        lib.conf_destroy(conf)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, said.value.decode(errors="replace")))  # noqa: SLF001
    return handle
