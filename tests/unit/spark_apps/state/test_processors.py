"""The ready-made processors over batches and hand-offs, and under Spark's own `TwsTester`."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_apps.state.processors import DropDuplicates, LastValue, RunningTotals, Sessions, TumblingWindows
from tests.stateful_bench import DELAY_MS, NEW, OLD, TIMED_ROWS, Bench

SUMS = T.StructType().add("amount", T.LongType())


Open = Callable[..., Bench]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Makes a bench with a processor, claimed by `a`."""
    with ExitStack() as ending:

        def made(processor: Any, time_mode: str = "None", **how: Any) -> Bench:
            url = f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.sqlite"
            bench = Bench(url, processor, rows=TIMED_ROWS, output="", time_mode=time_mode, **how)
            ending.callback(bench.close)
            bench.claim("a", OLD)
            return bench

        yield made


def orders(*given_rows: tuple[str, int | None, int]) -> list[tuple[int, dict[str, Any]]]:
    """Return rows of partition 0: key, amount, and time in seconds."""
    return [(0, {"key": key, "amount": amount, "at": at * 1_000}) for key, amount, at in given_rows]


def test_running_totals_count_and_sum_over_a_hand_off(opened: Open) -> None:
    bench = opened(RunningTotals(SUMS))
    bench.write("a", OLD, orders(("tea", 3, 1), ("tea", None, 2), ("coffee", None, 3)))
    bench.claim("b", NEW)
    bench.write("b", NEW, orders(("tea", 4, 4)))
    assert bench.totals() == [("coffee", "1", "None"), ("tea", "2", "3"), ("tea", "3", "7")]


def test_the_last_value_of_a_key_is_returned_with_the_value_before(opened: Open) -> None:
    bench = opened(LastValue(SUMS))
    bench.write("a", OLD, orders(("door", 1, 1), ("door", 2, 2)))
    bench.claim("b", NEW)
    bench.write("b", NEW, orders(("door", 5, 3)))
    assert bench.totals() == [("door", "1", "2"), ("door", "2", "5"), ("door", "None", "1")]


def test_duplicates_within_the_time_are_left_out_over_a_hand_off(opened: Open) -> None:
    bench = opened(DropDuplicates(60_000), "ProcessingTime")
    bench.write("a", OLD, orders(("A-17", 1, 1), ("A-17", 2, 1), ("A-18", 3, 1)))
    bench.claim("b", NEW)
    bench.now_s += 59
    bench.write("b", NEW, orders(("A-17", 4, 1)))
    bench.now_s += 2
    bench.write("b", NEW, orders(("A-17", 5, 1)))
    assert [(row[0], row[3]) for row in bench.totals()] == [("A-17", "1"), ("A-17", "5"), ("A-18", "3")]


def test_a_window_is_returned_once_the_watermark_has_passed_its_end(opened: Open) -> None:
    bench = opened(TumblingWindows(10_000, "at", SUMS), "EventTime")
    bench.write("a", OLD, orders(("tea", 1, 1), ("tea", 2, 9), ("coffee", 5, 3)))
    bench.claim("b", NEW)
    bench.write("b", NEW, orders(("tea", 4, 10)))
    assert bench.totals() == [], "the watermark is a second behind"
    bench.write("b", NEW, orders(("tea", 4, 11)))
    found = [(key, start[11:19], end[11:19], *rest) for key, start, end, *rest in bench.totals()]
    assert found == [("coffee", "00:00:00", "00:00:10", "1", "5"), ("tea", "00:00:00", "00:00:10", "2", "3")]
    bench.write("b", NEW, orders(("tea", 100, 5)))
    assert len(bench.totals()) == 2, "a late row is left out"


def test_a_window_of_an_idle_partition_closes_by_the_clock(opened: Open) -> None:
    bench = opened(TumblingWindows(10_000, "at", SUMS), "EventTime", idle_s=30.0)
    now = bench.now_s = 1_000.0
    bench.write("a", OLD, orders(("tea", 1, int(now) - 4)))
    for seconds, closed in ((30, 0), (31, 1), (60, 1)):
        bench.now_s = now + seconds
        bench.idle("a", OLD, 0)
        assert len(bench.totals()) == closed, f"{seconds} s after the window's end, 1 s of delay, 30 s idle"
    bench.claim("b", NEW)
    bench.write("b", NEW, orders(("tea", 2, int(now) + 20), ("tea", 5, int(now) + 35)))
    bench.now_s = now + 100
    bench.idle("b", NEW, 0)
    assert [row[-2:] for row in bench.totals()] == [("1", "1"), ("1", "5")], "the watermark has moved: a row is late"


def test_an_idle_partition_without_state_has_no_watermark(opened: Open) -> None:
    bench = opened(TumblingWindows(10_000, "at", SUMS), "EventTime", idle_s=30.0)
    bench.idle("a", OLD, 0)
    assert bench.stored() == []


def test_a_session_ends_after_a_gap_and_rows_between_two_sessions_join_them(opened: Open) -> None:
    bench = opened(Sessions(5_000, "at", SUMS), "EventTime")
    bench.write("a", OLD, orders(("ann", 1, 10), ("bob", 1, 10)))
    bench.write("a", OLD, orders(("ann", 2, 16), ("ann", 4, 13), ("bob", 2, 16)))
    bench.claim("b", NEW)
    bench.write("b", NEW, orders(("eve", 1, 40)))
    found = [(key, start[11:19], end[11:19], *rest) for key, start, end, *rest in bench.totals()]
    assert found == [
        ("ann", "00:00:10", "00:00:16", "3", "7"),
        ("bob", "00:00:10", "00:00:10", "1", "1"),
        ("bob", "00:00:16", "00:00:16", "1", "2"),
    ]
    assert sorted(name for (name,) in bench.stored("name")) == ["$partition", "$timers", "sessions"], (
        "only eve's is open"
    )


def test_expired_rows_do_not_count(opened: Open) -> None:
    bench = opened(DropDuplicates(60_000), "ProcessingTime")
    bench.write("a", OLD, orders(("A-17", 1, 1), ("A-18", 3, 1)))
    bench.now_s += 61
    bench.write("a", OLD, orders(("A-19", 1, 1)))
    assert bench.sinks["a"].sizes[0].rows == 1
    assert_counted(bench, "a")


def assert_counted(bench: Bench, owner: str) -> None:
    rows = [row for row in bench.stored() if row[0] != "$partition"]
    timers = [row[3] for row in rows if row[0] == "$timers"]
    size = bench.sinks[owner].sizes[0]
    assert (size.rows, size.value_bytes) == (len(rows), sum(len(row[2]) for row in rows))
    assert size.first_timer_ms == min(timers, default=None)


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 5), st.integers(1, 60)), min_size=1, max_size=5),
    min_size=1,
    max_size=5,
)
TIMED = {"windows": TumblingWindows(10_000, "at", SUMS), "sessions": Sessions(7_000, "at", SUMS)}


def expected(kind: str, rows: list[tuple[str, int, int]]) -> list[tuple[str, str, str]]:
    """Return key, count and sum of each window or session, computed from all rows at once."""
    found: dict[Any, list[int]] = defaultdict(list)
    last: dict[str, tuple[int, int]] = {}
    for key, amount, at in sorted(rows, key=lambda row: row[2]):
        number, before = last.get(key, (0, -100))
        number += kind == "sessions" and at - before >= 7
        last[key] = number, at
        found[key, at // 10 if kind == "windows" else number].append(amount)
    return sorted((key, str(len(amounts)), str(sum(amounts))) for (key, _), amounts in found.items())


@pytest.mark.parametrize("kind", TIMED)
@given(batches=BATCHES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_windows_and_sessions_are_those_of_all_rows_that_were_not_late_and_their_state_is_counted(
    kind: str, batches: list[list[tuple[str, int, int]]], opened: Open
) -> None:
    bench = opened(TIMED[kind], "EventTime")
    watermark, on_time, bench.token = 0, list[tuple[str, int, int]](), NEW
    for batch in batches:
        bench.hand_over()
        bench.write(bench.owner, bench.token, orders(*batch))
        assert_counted(bench, bench.owner)
        on_time += [row for row in batch if row[2] * 1_000 > watermark]
        watermark = max(watermark, max(at for _, _, at in batch) * 1_000 - DELAY_MS)
    bench.write(bench.owner, bench.token, orders(("end", 1, 1_000)))
    assert sorted((key, count, total) for key, _, _, count, total in bench.totals()) == expected(kind, on_time)


def test_the_same_processors_run_under_spark_s_own_tester() -> None:
    rows = [Row(key="tea", amount=3), Row(key="tea", amount=4)]
    assert TwsTester(RunningTotals(SUMS)).test("tea", rows) == [Row("tea", 2, 7)]
    assert TwsTester(LastValue(SUMS)).test("tea", rows) == [Row("tea", None, 3), Row("tea", 3, 4)]
    assert TwsTester(DropDuplicates(5), timeMode="ProcessingTime").test("tea", rows) == rows[:1]
