"""Ready-made processors: running totals, the last value, removal of duplicates, windows and sessions.

Each processor runs under `Stateful` and under Spark's `transformWithState`. `output(rows, key)` returns the schema of
the returned rows: `Stateful` calls it, and in Spark it goes to `outputStructType`. Columns are a DDL text or a
`StructType`. `by`: the grouping columns, with their names in the returned rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812 (its usual name)
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from spark_apps.state.codec import struct_of

Columns = T.StructType | str
NOTHING = T.StructType()
BY = ("key",)
_TIME = T.TimestampType()
_COUNT = T.StructField("count", T.LongType())
_SPAN = [T.StructField("start", _TIME), T.StructField("end", _TIME)]
MICROS_PER_MS = 1_000
MS_PER_S = 1_000


class RunningTotals(StatefulProcessor):
    """Counts the rows of each key, and sums the named columns. Returns the new totals of each key in a batch.

    `sums`: columns with the types of their sums, such as `"quantity LONG, amount DECIMAL(20, 2)"`. Nulls add nothing.
    """

    def __init__(self, sums: Columns = NOTHING, by: Sequence[str] = BY) -> None:
        self.sums, self.by = struct_of(sums), tuple(by)

    def output(self, rows: T.StructType, key: T.StructType) -> T.StructType:
        """Return grouping columns, `count`, and the sums."""
        return T.StructType([*key.fields, _COUNT, *self.sums.fields])

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._row = Row(*self.by, _COUNT.name, *self.sums.names)
        self._totals = handle.getValueState("totals", T.StructType([_COUNT, *self.sums.fields]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        totals = _added(self._totals.get(), rows, self.sums.names)
        self._totals.update(totals)
        yield self._row(*key, *totals)


class LastValue(StatefulProcessor):
    """Keeps the named columns of each key's last row. Returns these columns for each key in a batch.

    `columns`: such as `"status STRING, changed_at TIMESTAMP"`.
    """

    def __init__(self, columns: Columns, by: Sequence[str] = BY) -> None:
        self.columns, self.by = struct_of(columns), tuple(by)

    def output(self, rows: T.StructType, key: T.StructType) -> T.StructType:
        """Return grouping columns, the former values as `previous_...`, and the columns."""
        previous = [T.StructField(f"previous_{one.name}", one.dataType) for one in self.columns.fields]
        return T.StructType([*key.fields, *previous, *self.columns.fields])

    def init(self, handle: StatefulProcessorHandle) -> None:
        previous = [f"previous_{name}" for name in self.columns.names]
        self._row = Row(*self.by, *previous, *self.columns.names)
        self._last = handle.getValueState("last", self.columns)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        before = self._last.get() or tuple([None] * len(self.columns.names))
        for row in rows:
            after = tuple([row[name] for name in self.columns.names])
            yield self._row(*key, *before, *after)
            before = after
        self._last.update(before)


class DropDuplicates(StatefulProcessor):
    """Returns the first row of each key, and no further row of the key within a time.

    Needs the time mode `ProcessingTime`.
    """

    def __init__(self, within_ms: int) -> None:
        self.within_ms = within_ms

    def output(self, rows: T.StructType, key: T.StructType) -> T.StructType:
        return rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", T.StructType([_COUNT]), self.within_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        if not self._seen.exists():
            self._seen.update((1,))
            yield next(rows)


class _Spans(StatefulProcessor):
    """The common part of windows and sessions. Each returned row has a start, an end, a count and sums."""

    def __init__(self, time: str, sums: Columns, by: Sequence[str]) -> None:
        self.time = time
        self.sums, self.by = struct_of(sums), tuple(by)

    def output(self, rows: T.StructType, key: T.StructType) -> T.StructType:
        """Return grouping columns, `start`, `end` (for a session, the time of its last row), `count`, and the sums."""
        return T.StructType([*key.fields, *_SPAN, _COUNT, *self.sums.fields])

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._row = Row(*self.by, *[one.name for one in (*_SPAN, _COUNT)], *self.sums.names)

    def _result(self, key: Any, start_ms: int, end_ms: int, totals: Sequence[Any]) -> Row:
        return self._row(*key, _time(start_ms), _time(end_ms), *totals)


class TumblingWindows(_Spans):
    """Counts and sums for each key in windows of a fixed size. Returns a window when the watermark has passed its end.

    `time`: the column with the event time. Needs the time mode `EventTime`.
    """

    def __init__(self, size_ms: int, time: str, sums: Columns = NOTHING, by: Sequence[str] = BY) -> None:
        super().__init__(time, sums, by)
        self.size_ms = size_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        start = T.StructType().add("start_ms", T.LongType())
        self._windows = handle.getMapState("windows", start, T.StructType([_COUNT, *self.sums.fields]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        windows: dict[int, list[Row]] = {}
        for row in rows:
            if row[self.time] is not None:
                windows.setdefault(_ms(row[self.time]) // self.size_ms * self.size_ms, []).append(row)
        for start, inside in windows.items():
            before = self._windows.getValue((start,))
            self._windows.updateValue((start,), _added(before, inside, self.sums.names))
            if before is None:
                self._handle.registerTimer(start + self.size_ms)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        end = expiredTimerInfo.getExpiryTimeInMs()
        start = end - self.size_ms
        totals = self._windows.getValue((start,))
        if totals is not None:
            self._windows.removeKey((start,))
            yield self._result(key, start, end, totals)


class Sessions(_Spans):
    """Counts and sums for each key in sessions, whose rows have gaps shorter than `gap_ms`.

    Returns a session when the watermark is `gap_ms` past its end. `time`: the column with the event time. Needs the
    time mode `EventTime`.
    """

    def __init__(self, gap_ms: int, time: str, sums: Columns = NOTHING, by: Sequence[str] = BY) -> None:
        super().__init__(time, sums, by)
        self.gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        span = T.StructType().add("start_ms", T.LongType()).add("end_ms", T.LongType())
        self._sessions = handle.getListState("sessions", T.StructType([*span.fields, _COUNT, *self.sums.fields]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        found = list(self._sessions.get())
        for row in rows:
            if row[self.time] is not None:
                at = _ms(row[self.time])
                found.append((at, at, *_added(None, [row], self.sums.names)))
        self._keep(self._merged(found))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        open_ms = expiredTimerInfo.getExpiryTimeInMs() - self.gap_ms
        found = list(self._sessions.get())
        self._sessions.clear()
        for session in found:
            if session[1] <= open_ms:
                yield self._result(key, session[0], session[1], session[2:])
            else:
                self._sessions.appendValue(session)

    def _merged(self, found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        sessions: list[tuple[Any, ...]] = []
        for one in sorted(found, key=lambda session: (session[0], session[1])):
            if sessions and one[0] - sessions[-1][1] < self.gap_ms:
                last = sessions.pop()
                one = (last[0], max(last[1], one[1]), *_sum(last[2:], one[2:]))  # noqa: PLW2901
            sessions.append(one)
        return sessions

    def _keep(self, sessions: list[tuple[Any, ...]]) -> None:
        """Store these sessions, and set a timer for the end of each."""
        if not sessions:
            return
        self._sessions.put(sessions)
        ends, timers = {session[1] + self.gap_ms for session in sessions}, set(self._handle.listTimers())
        for timer in timers - ends:
            self._handle.deleteTimer(timer)
        for end in ends - timers:
            self._handle.registerTimer(end)


def _added(before: Sequence[Any] | None, rows: Iterable[Row], names: Sequence[str]) -> tuple[Any, ...]:
    """Return count and sums with these rows added. A sum without a value is null."""
    totals: tuple[Any, ...] = tuple(before) if before is not None else (0, *[None] * len(names))
    for row in rows:
        totals = _sum(totals, (1, *[row[name] for name in names]))
    return totals


def _sum(left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([_plus(one, other) for one, other in zip(left, right, strict=True)])


def _plus(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _ms(time: datetime) -> int:
    return int(_TIME.toInternal(time)) // MICROS_PER_MS


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / MS_PER_S)  # noqa: DTZ006 - as Spark gives times to Python: local, without a zone
