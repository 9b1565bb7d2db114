"""Runs a processor over one batch, on the state rows in the sink's transaction.

Each partition of a batch has separate state and a separate watermark. For one partition: rows up to the watermark are
late and left out. The processor gets the other rows of each key in the order of their offsets. The watermark moves to
the latest event time minus the watermark's delay. Then the timers up to the watermark fire.
"""

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import StateSize
from spark_apps.delivery.database import first_line
from spark_apps.releases import (
    ArrowTableToRowsConversion,
    ExpiredTimerInfo,
    LocalDataToArrowConversion,
    StatefulProcessor,
    TimerValues,
    arrow_schema,
)
from spark_apps.state import ProcessorFailed, StateChanged
from spark_apps.state import schema as schemas
from spark_apps.state.codec import Codec, Unfit, decode, encode
from spark_apps.state.handle import TIMERS, Entry, Handle, TimeMode, expiry_of, living
from spark_apps.state.table import PARTITION, PartitionRow, StateRows

MAX_KEY_BYTES = 1_000
"""Maximum bytes of a key. PostgreSQL's limit of 2,704 bytes includes the names of cluster, topic and operator."""
MAX_VALUE_BYTES = 1_000_000
"""Maximum bytes of one state variable under one key. Each batch with the key reads and writes all these bytes."""
SHOWN_KEY_CHARS = 100
MICROS_PER_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A processor with its declarations.

    `rows`: schema of the input. `by`: places of the grouping columns in the input. `event_time`: column and delay of
    the watermark in ms. `idle_s`, `keeps_on_reset`, `keeps_partition`: see `Stateful`. `schema`: the state's schema as
    text. `dropped`: state variables to delete. `expiring`: state variables with a TTL.
    """

    name: str
    mode: TimeMode
    pickled: bytes
    rows: T.StructType
    key: Codec
    by: tuple[int, ...]
    output: T.StructType
    event_time: tuple[str, int] | None
    idle_s: float
    keeps_on_reset: bool
    keeps_partition: bool
    schema: str
    dropped: frozenset[str]
    expiring: tuple[str, ...]


class Batch:
    """Processes one batch of an operator. All rows see the same time."""

    def __init__(self, operator: Operator, state: StateRows, now_ms: int) -> None:
        self._operator = operator
        self._state = state
        self._output: list[Any] = []
        self._rows = self._bytes = 0  # rows and bytes added to the present partition so far
        self.sizes: dict[int, StateSize] = {}
        self._handle = Handle(operator.name, operator.mode)
        self._handle.now_ms = now_ms
        self._processor: StatefulProcessor = cloudpickle.loads(operator.pickled)
        self._processor.init(self._handle)
        self._handle.declaring = False

    def run(self, rows: pa.Table, idle: Collection[int] = ()) -> pa.Table:
        """Process the rows, store the changed state, and return the processor's rows.

        The event time of `idle` partitions advances with the clock.
        """
        with _without_collections():
            return self._run(rows, idle)

    def _run(self, rows: pa.Table, idle: Collection[int]) -> pa.Table:
        ordered = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
        counts = Counter(ordered["partition"].to_pylist())
        stored, first = self._state.partitions({*counts, *idle}), 0
        for partition, count in counts.items():
            self._run_partition(partition, stored.get(partition), ordered.slice(first, count))
            first += count
        for partition in sorted(stored.keys() & set(idle)):
            self._run_idle(partition, stored[partition])
        self._processor.close()
        return _table(self._output, self._operator)

    def _run_idle(self, partition: int, stored: PartitionRow) -> None:
        operator, handle = self._operator, self._handle
        if operator.event_time is None:
            return
        check_schema(self._state, partition, stored, operator)
        watermark_ms = handle.now_ms - int(operator.idle_s * 1_000) - operator.event_time[1]
        if watermark_ms > stored.watermark_ms:
            handle.watermark_ms = watermark_ms
            self._fire(partition)
            self._end_partition(partition, stored)

    def _run_partition(self, partition: int, stored: PartitionRow | None, rows: pa.Table) -> None:
        operator, handle = self._operator, self._handle
        if stored is not None:
            check_schema(self._state, partition, stored, operator)
        before = stored or PartitionRow("", 0, 0, 0)
        handle.watermark_ms = before.watermark_ms
        times = _times(rows, operator)
        given = ArrowTableToRowsConversion.convert(rows, operator.rows)
        if times is not None:
            late_until = before.watermark_ms * MICROS_PER_MS
            given = [row for row, at in zip(given, times, strict=True) if at is None or at > late_until]
        self._input(partition, given)
        if times is not None and operator.event_time is not None:
            latest = max((at for at in times if at is not None), default=0)
            handle.watermark_ms = max(before.watermark_ms, latest // MICROS_PER_MS - operator.event_time[1])
            self._fire(partition)
        if stored is not None:
            for name in operator.dropped & set(schemas.names_of(stored.schema)):
                self._state.drop(partition, name)
                before = PartitionRow(stored.schema)  # count the rows again
        self._end_partition(partition, before)

    def _end_partition(self, partition: int, before: PartitionRow) -> None:
        """Store watermark, schema and size of the partition's state."""
        operator, handle, state = self._operator, self._handle, self._state
        purged, purged_bytes = state.purge(partition, operator.expiring, handle.now_ms)
        if before.rows is None or before.value_bytes is None:
            rows, value_bytes = state.size(partition)
        else:
            rows, value_bytes = before.rows + self._rows - purged, before.value_bytes + self._bytes - purged_bytes
        self._rows = self._bytes = 0
        after = PartitionRow(operator.schema, handle.watermark_ms, rows, value_bytes)
        if after != before:
            state.put_partition(partition, after)
        first_timer_ms = state.first_timer_ms(partition) if operator.mode is TimeMode.EVENT_TIME else None
        self.sizes[partition] = StateSize(rows, value_bytes, first_timer_ms)

    def _input(self, partition: int, rows: Iterable[T.Row]) -> None:
        groups: dict[tuple[Any, ...], list[T.Row]] = {}
        at = tuple.__getitem__  # a Row's own method accepts names too, and takes ten times as long
        for row in rows:
            groups.setdefault(tuple([at(row, place) for place in self._operator.by]), []).append(row)
        encoded = {key: self._encoded(partition, key) for key in groups}
        entries = self._load(partition, encoded.values())
        values = self._values()
        for key, of_key in groups.items():
            self._handle.entry = entries[encoded[key]]
            self._call(partition, key, partial(self._processor.handleInputRows, key, iter(of_key), values))
        self._save(partition, entries.values())

    def _fire(self, partition: int) -> None:
        """Call the processor for each timer up to the watermark, the earliest first."""
        until = self._handle.watermark_ms
        while due := self._state.due(partition, until):
            entries = self._load(partition, due)
            timers = sorted((at, key) for key, entry in entries.items() for at in entry.timers if at <= until)
            if not timers:
                raise self._state.damaged(partition, due[0], TIMERS, ValueError("no timer is due, and the row says so"))
            values = self._values()
            for at, encoded in timers:
                self._handle.entry = entry = entries[encoded]
                # As in Spark, a timer that is due runs, even if an earlier timer of the key has deleted this timer.
                key, info = self._operator.key.restore(decode(encoded)), ExpiredTimerInfo(at)
                self._call(partition, key, partial(self._processor.handleExpiredTimer, key, values, info))
                entry.put(TIMERS, [one for one in entry.timers if one != at])
            self._save(partition, entries.values())

    def _call(self, partition: int, key: tuple[Any, ...], handle: Callable[[], Iterable[Any]]) -> None:
        """Call the processor for a key, and keep the rows that it returns."""
        try:
            self._output.extend(_checked(handle(), self._operator.output.names))
        except CoordinatorError:
            raise
        except Exception as error:
            problem = str(error) if isinstance(error, Unfit) else f"{type(error).__name__}: {first_line(error)}"
            raise self._failed(partition, key, problem) from error

    def _values(self) -> TimerValues:
        """Return the times that the processor sees, which depend on the time mode as in Spark."""
        if self._operator.mode is TimeMode.NONE:
            return TimerValues(-1, -1)
        watermark = self._handle.watermark_ms if self._operator.mode is TimeMode.EVENT_TIME else -1
        return TimerValues(self._handle.now_ms, watermark)

    def _load(self, partition: int, keys: Collection[bytes]) -> dict[bytes, Entry]:
        entries = {key: Entry(key) for key in keys}
        for key, name, value in self._state.find(partition, entries.keys()):
            if name == TIMERS or name in self._handle.variables:
                try:
                    entries[key].load(name, value)
                except (msgspec.DecodeError, UnicodeDecodeError, TypeError, ValueError) as error:
                    raise self._state.damaged(partition, key, name, error) from error
        return entries

    def _save(self, partition: int, entries: Iterable[Entry]) -> None:
        kept: list[tuple[bytes, str, bytes, int | None]] = []
        deleted: list[tuple[bytes, str]] = []
        for entry in entries:
            for name in sorted(entry.changed):
                variable, content = self._handle.variables.get(name), entry.contents.get(name)
                if content and variable is not None and variable.ttl_ms:
                    content = living(variable.kind, content, self._handle.now_ms)
                former = entry.sizes.pop(name, None)
                if not content:
                    deleted.append((entry.key, name))
                    self._count(former, None)
                    continue
                value = encode(content)
                if len(value) > MAX_VALUE_BYTES:
                    raise self._too_large(partition, entry, name, len(value))
                kept.append((entry.key, name, value, expiry_of(variable, content)))
                self._count(former, len(value))
        self._state.delete(partition, deleted)
        self._state.put(partition, sorted(kept))  # in the order of the primary key, so that neighbours share pages

    def _count(self, before: int | None, after: int | None) -> None:
        """Count a replaced row: `before` and `after` are its bytes; `None` = no row."""
        self._rows += (after is not None) - (before is not None)
        self._bytes += (after or 0) - (before or 0)

    def _encoded(self, partition: int, key: tuple[Any, ...]) -> bytes:
        try:
            encoded: bytes = encode(self._operator.key.store(key))
        except (Unfit, UnicodeEncodeError) as error:
            raise self._failed(partition, key, str(error)) from error
        if len(encoded) > MAX_KEY_BYTES:
            raise self._failed(partition, key, f"the key has {len(encoded):,} bytes, and {MAX_KEY_BYTES:,} are allowed")
        return encoded

    def _too_large(self, partition: int, entry: Entry, name: str, size: int) -> ProcessorFailed:
        return self._failed(
            partition,
            self._operator.key.restore(decode(entry.key)),
            f"state {name} has {size:,} bytes under one key, and {MAX_VALUE_BYTES:,} are allowed: keep less, or divide the key",
        )

    def _failed(self, partition: int, key: tuple[Any, ...], problem: str) -> ProcessorFailed:
        shown = repr(key)
        shown = shown if len(shown) <= SHOWN_KEY_CHARS else f"{shown[:SHOWN_KEY_CHARS]}..."
        kind = type(self._processor).__name__
        return ProcessorFailed(f"processor {kind} failed in partition {partition} at key {shown}: {problem}")


def check_schema(state: StateRows, partition: int, stored: PartitionRow, operator: Operator) -> None:
    """Raise `StateChanged` if the processor cannot read the state of a partition."""
    try:
        problem = schemas.changed(stored.schema, operator.schema, operator.dropped)
    except (ValueError, KeyError, TypeError) as error:
        raise state.damaged(partition, b"", PARTITION, error) from error
    if problem:
        writer = state.writer
        raise StateChanged(
            f"cluster {writer.cluster}, topic {writer.topic}, partition {partition}, operator {operator.name}: {problem}; deploy "
            "the application that wrote the state, or give the operator another name to begin without state"
        )


@contextmanager
def _without_collections() -> Iterator[None]:
    """Switch garbage collection off in the block: a large batch's state is many objects, all needed until its end."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _times(rows: pa.Table, operator: Operator) -> list[int | None] | None:
    """Return the rows' event times in microseconds; `None` without event time."""
    if operator.event_time is None:
        return None
    found: list[int | None] = rows[operator.event_time[0]].cast(pa.int64()).to_pylist()
    return found


def _checked(returned: Any, names: list[str]) -> Iterable[Any]:
    """Return the processor's rows with their columns in order; raises `Unfit`."""
    for row in returned if returned is not None else ():
        given = getattr(row, "__fields__", names)
        if type(row) is T.Row and given == names and len(row) == len(names):
            yield row
        elif type(row).__module__.startswith("pandas"):
            raise Unfit("the processor returns pandas frames, the form of transformWithStateInPandas; return rows")
        elif not isinstance(row, tuple):
            raise Unfit(f"the processor returns a {type(row).__name__} in place of a row of {', '.join(names)}")
        elif len(row) != len(names) or sorted(given) != sorted(names):
            raise Unfit(
                f"the processor returns a row of {len(row)} columns ({', '.join(given)}), and {', '.join(names)} are declared"
            )
        else:
            named = dict(zip(given, row, strict=True))
            yield tuple([named[name] for name in names])


def _table(rows: list[Any], operator: Operator) -> pa.Table:
    if not rows:
        return arrow_schema(operator.output).empty_table()
    try:
        return LocalDataToArrowConversion.convert(rows, operator.output, use_large_var_types=False)
    except (PySparkException, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ProcessorFailed(
            f"the rows of the processor of operator {operator.name} do not fit the declared output: {first_line(error)}"
        ) from error
