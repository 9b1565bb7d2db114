"""The handle against Spark's own `TwsTester`: the same processor on the same batches, with hand-offs in between."""

import tempfile
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.stateful_bench import DELAY_MS, ROWS, TIMED_ROWS, Bench

OUTPUT = T.StructType().add("key", T.StringType()).add("seen", T.StringType())
ONE = T.StructType().add("one", T.LongType())
NAMED = T.StructType().add("name", T.StringType()).add("parts", T.ArrayType(T.LongType()))


class Script(StatefulProcessor):
    """Changes the state by the amounts of the rows, and returns the resulting state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", NAMED)
        self.list = handle.getListState("list", ONE)
        self.map = handle.getMapState("map", ONE, NAMED)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            act, number = divmod(row["amount"], 4)
            self.act(act, number)
            yield Row(key=key[0], seen=self.seen(timerValues))

    def act(self, act: int, number: int) -> None:
        named, value = (f"n{number}", [number, number + 1]), (number,)
        match act:
            case 0:
                self.value.update(named)
            case 1:
                self.value.clear()
            case 2:
                self.list.appendValue(value)
            case 3:
                self.list.put([value, (number + 1,)])
            case 4:
                self.list.clear()
            case 5:
                self.map.updateValue(value, named)
            case 6 if self.map.containsKey(value) and len(list(self.map.keys())) > 1:
                self.map.removeKey(value)
            case 7:
                self.map.clear()
            case 8:
                self.list.appendList([value, value])

    def seen(self, times: TimerValues) -> str:
        watermark = times.getCurrentWatermarkInMs()
        value, found = self.value.get(), sorted((k, tuple(v)) for k, v in self.map.iterator())
        exists = (self.value.exists(), self.list.exists(), self.map.exists())
        return repr((watermark, exists, value and tuple(value), [tuple(one) for one in self.list.get()], found))


class Timed(Script):
    """Registers, lists and deletes timers too; a timer registers another timer."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            act, number = divmod(row["amount"], 4)
            at = timerValues.getCurrentWatermarkInMs() + 1 + number * 400
            if act in (0, 2, 5):
                self.handle.registerTimer(at)
            elif act == 1:
                for one in list(self.handle.listTimers())[:1]:
                    self.handle.deleteTimer(one)
            self.act(act, number)
            yield Row(key=key[0], seen=repr((list(self.handle.listTimers()), self.seen(timerValues))))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        at = expiredTimerInfo.getExpiryTimeInMs()
        if at % 2:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 300)
        elif at % 4:
            self.handle.deleteTimer(at + 400)
        self.list.appendValue((at,))
        yield Row(key=key[0], seen=repr(("timer", at, self.seen(timerValues))))


ACTS = st.integers(0, 9 * 4 - 1)
BATCHES = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.sampled_from("xyz"), ACTS), min_size=1, max_size=6)),
    min_size=1,
    max_size=6,
)
TIMED_BATCHES = st.lists(
    st.tuples(
        st.booleans(), st.lists(st.tuples(st.sampled_from("xy"), ACTS, st.integers(1, 9_000)), min_size=1, max_size=5)
    ),
    min_size=1,
    max_size=6,
)
UNTIMED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def expected_of_a_batch(tester: TwsTester, rows: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """The result of Spark's tester for the rows of one batch, key by key."""
    expected = []
    for key in dict.fromkeys(key for key, _ in rows):
        expected += tester.test(key, [Row(**columns) for one, columns in rows if one == key])
    return [(row["key"], row["seen"]) for row in expected]


@given(BATCHES)
@UNTIMED
def test_state_is_that_of_spark_s_own_tester(batches: list[tuple[bool, list[tuple[str, int]]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(f"sqlite:///{folder}/rows.sqlite", Script(), rows=ROWS, output=OUTPUT)
        tester, expected = TwsTester(Script()), []
        bench.hand_over()
        for moves, rows in batches:
            if moves:
                bench.hand_over()
            bench.write(bench.owner, bench.token, [(0, {"key": key, "amount": amount}) for key, amount in rows])
            expected += expected_of_a_batch(tester, [(key, {"amount": amount}) for key, amount in rows])
        found = bench.query(f'SELECT "key", seen FROM "{bench.table}"')
        bench.close()
    assert sorted(found) == sorted(expected)


@given(TIMED_BATCHES)
@example([(False, [("x", 0, 1_009)]), (False, [("x", 0, 1_410), ("x", 1, 10)])])  # a due timer deletes a due timer
@UNTIMED
def test_timers_and_late_rows_are_those_of_spark_s_own_tester(
    batches: list[tuple[bool, list[tuple[str, int, int]]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        how = {"rows": TIMED_ROWS, "output": OUTPUT, "time_mode": "EventTime"}
        bench = Bench(f"sqlite:///{folder}/rows.sqlite", Timed(), **how)
        tester = TwsTester(Timed(), timeMode="EventTime", eventTimeExtractor=lambda row: row["at"])
        expected, watermark = [], 0
        bench.hand_over()
        for moves, rows in batches:
            if moves:
                bench.hand_over()
            given_rows = [(0, {"key": key, "amount": amount, "at": at}) for key, amount, at in rows]
            bench.write(bench.owner, bench.token, given_rows)
            on_time = [(key, {"amount": amount, "at": at}) for key, amount, at in rows if at > watermark]
            expected += expected_of_a_batch(tester, on_time)
            latest = max(at for _, _, at in rows) - DELAY_MS
            if latest > watermark:
                watermark = latest
                expected += [(row["key"], row["seen"]) for row in tester.setWatermark(watermark)]
        found = bench.query(f'SELECT "key", seen FROM "{bench.table}"')
        bench.close()
    assert sorted(found) == sorted(expected)
