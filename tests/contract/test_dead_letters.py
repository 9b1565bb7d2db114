"""Bad records leave their batch for the dead letters, in the transaction of the good rows, on each database."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_tasks import __version__
from coordinator_tasks.core.errors import KafkaUnavailable
from spark_apps.dead_letters import LetterUnreadable, OnError, RecordHasProblem, TooManyDeadLetters, replaying, table
from spark_apps.dead_letters import Stage as FailedStage
from spark_apps.dead_letters.recovery import Bad, Recovery
from spark_apps.delivery import SinkStep, SinkUnavailable
from spark_apps.delivery.database import Database
from tests.letters_bench import GENEROUS, NEWER, ROWS, TOKEN, Stage
from tests.sink_bench import TableBench, bench_of, patient_claim, rows_of
from tests.stateful_bench import Bench, Counting, arrow

BAD = 1_000
DRIVER = (sqlite3.Error, psycopg.Error, pymysql.Error)


@pytest.fixture
def staged(url: str) -> Iterator[Callable[[OnError], Stage]]:
    """Makes a stage with this policy."""
    with ExitStack() as made:
        yield lambda policy: made.enter_context(closing(Stage(url, policy)))


@pytest.fixture
def stage(staged: Callable[[OnError], Stage]) -> Stage:
    return staged(GENEROUS)


def test_a_bad_record_among_many_becomes_a_dead_letter_and_the_others_pass(stage: Stage) -> None:
    stage.claim(0, 1)
    log = {(p, o): BAD if (p, o) == (1, 377) else 1 for p in range(2) for o in range(1_000)}
    assert stage.write(log) == {}
    assert stage.stored() == [place for place in log if place != (1, 377)]
    assert (stage.position(0), stage.position(1)) == (1_000, 1_000)
    (letter,) = stage.letters()
    assert (letter.key, letter.value, letter.headers) == (b"k", b"1-377", (("h", b"\0"), ("n", None)))
    assert (letter.place.topic_id, letter.timestamp_ms, letter.stage, letter.tries) == ("id-1", 1_377, "store", 1)
    assert (letter.release, letter.consumer) == (__version__, "a")
    assert letter.kind in ("IntegrityError", "CheckViolation", "OperationalError")
    assert "number" in letter.error
    assert stage.stores < 40, "halved, and not tried one by one"
    assert stage.counts.total == 1


def test_letters_are_counted_and_listed_without_their_records(stage: Stage) -> None:
    stage.claim(0)
    stage.write({(0, offset): BAD if offset in (3, 7) else 1 for offset in range(10)})
    topic, where = stage.writer.topic, {"cluster": stage.cluster}
    with closing(Database(stage.url)) as database, database.transaction() as cursor:
        assert table.counts(cursor, 5, **where) == {topic: 2}
        listed = table.newest(cursor, 5, **where)
        (first,) = table.newest(cursor, 1, **where, topic=topic)
        assert table.newest(cursor, 5, **where, topic="another") == []
    assert sorted(one.offset for one in listed) == [3, 7]
    assert (first.topic, first.partition, first.tries, first.stage) == (topic, 0, 1, "store")
    assert "number" in first.error


places = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 30)), st.sampled_from([1, 1, 1, BAD, None]), min_size=1, max_size=60
)


@given(batches=st.lists(places, min_size=1, max_size=3))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_and_letters_together_are_the_log_and_each_record_comes_once(url: str, batches: list[Any]) -> None:
    stage, starts = Stage(url), dict.fromkeys(range(3), 0)
    try:
        stage.claim(*starts)
        log: dict[tuple[int, int], Any] = {}
        orders: list[list[tuple[int, int]]] = []
        stage.during = lambda rows: orders.append([(r["partition"], r["offset"]) for r in rows.to_pylist()])
        for batch in batches:
            moved = {(p, starts[p] + o): number for (p, o), number in batch.items()}
            ends = {p: max(o for q, o in moved if p == q) + 1 for p in {p for p, _ in moved}}
            stage.write(moved, steps={p: SinkStep(TOKEN, starts[p], end) for p, end in ends.items()})
            starts |= ends
            log |= moved
        bad = sorted(place for place, number in log.items() if number != 1)
        assert stage.places() == bad
        assert stage.stored() == sorted(log.keys() - set(bad))
        assert stage.counts.total == len(bad)
        assert {p: stage.position(p) or 0 for p in starts} == starts
        assert all(order == sorted(order) for order in orders[1:] if len(batches) == 1), "in the log's order"
    finally:
        stage.close()


def test_a_failure_after_the_dead_letters_leaves_neither_rows_nor_letters_nor_positions(stage: Stage) -> None:
    stage.claim(0)
    original = table.put_letters

    def put(cursor: Any, letters: Any) -> None:
        original(cursor, letters)
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "put_letters", put)
        with pytest.raises(ZeroDivisionError):
            stage.write({(0, 0): 1, (0, 1): BAD, (0, 2): 1})
    assert (stage.stored(), stage.places(), stage.position()) == ([], [], None)
    stage.write({(0, 0): 1, (0, 1): BAD, (0, 2): 1})
    assert (stage.stored(), stage.places(), stage.position()) == ([(0, 0), (0, 2)], [(0, 1)], 3)


def test_a_record_that_kafka_does_not_give_again_now_commits_nothing(stage: Stage) -> None:
    stage.claim(0)

    def away(*_: object) -> Any:
        raise KafkaUnavailable("away")

    stage.recovery.read = away
    with pytest.raises(KafkaUnavailable):
        stage.write({(0, 0): 1, (0, 1): BAD})
    assert (stage.stored(), stage.places(), stage.position()) == ([], [], None)
    stage.recovery.read = lambda *_: {}
    stage.write({(0, 0): 1, (0, 1): BAD})
    (letter,) = stage.letters()
    assert letter.value is None
    assert letter.error.endswith("(the log no longer has the record)")
    stage.recovery.read = lambda *_: None
    stage.write({(0, 2): BAD})
    assert stage.letters()[1].error.endswith("(the record has more than 8,388,608 bytes, too many for a dead letter)")


def test_letters_of_a_partition_under_another_token_are_left_out(stage: Stage) -> None:
    stage.claim(0, 1)
    stage.claim(1, token=NEWER)
    assert stage.write({(0, 0): BAD, (0, 1): 1, (1, 0): BAD, (1, 1): 1}).keys() == {1}
    assert (stage.places(), stage.stored(), stage.position(1)) == ([(0, 0)], [(0, 1)], None)


def test_skipped_records_leave_no_letter_and_are_counted(staged: Callable[[OnError], Stage]) -> None:
    stage = staged(OnError("skip", share=1.0))
    stage.claim(0)
    stage.write({(0, 0): 1, (0, 1): BAD, (0, 2): 1})
    assert (stage.stored(), stage.places(), stage.position()) == ([(0, 0), (0, 2)], [], 3)
    assert (stage.reads, stage.counts.total) == ([], 1)


def test_where_records_stop_their_partition_the_error_is_raised_as_it_is(staged: Callable[[OnError], Stage]) -> None:
    stage = staged(OnError())
    stage.claim(0)
    with pytest.raises(DRIVER):
        stage.write({(0, 0): 1, (0, 1): BAD})
    assert (stage.stored(), stage.places(), stage.stores) == ([], [], 1)


@pytest.mark.parametrize("error", [SinkUnavailable("away"), OSError(28, "No space left on device"), MemoryError()])
def test_what_is_no_records_fault_is_not_halved(stage: Stage, error: Exception) -> None:
    stage.claim(0)

    def fail(_: pa.Table) -> None:
        raise error

    stage.during = fail
    with pytest.raises(type(error)):
        stage.write({(0, 0): 1, (0, 1): 1})
    assert (stage.stores, stage.places(), stage.position()) == (1, [], None)


def test_a_missing_table_is_no_records_fault(stage: Stage) -> None:
    stage.claim(0)
    stage.execute("ALTER TABLE numbers RENAME TO elsewhere")
    try:
        with pytest.raises(DRIVER):
            stage.write({(0, 0): 1, (0, 1): 1})
        assert (stage.stores, stage.places()) == (1, [])
    finally:
        stage.execute("ALTER TABLE elsewhere RENAME TO numbers")


def test_a_full_database_in_the_middle_of_the_halving_is_one_error_and_commits_nothing(tmp_path: Path) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/rows.sqlite")
    stage.claim(0)
    log = {(0, o): BAD if o == 3_000 else 1 for o in range(4_000)}
    with stage.sink.database.transaction() as cursor:
        ((pages,),) = cursor.query("PRAGMA page_count")
    dialect = stage.sink.database._dialect

    def connect_full(*given: Any) -> Any:
        made = original(*given)
        made.execute(f"PRAGMA max_page_count = {pages + 20}")
        return made

    original = dialect.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialect, "connect", connect_full)
        stage.sink.database.close()
        with pytest.raises(sqlite3.OperationalError, match="full"):
            stage.write(log)
    assert (stage.stored(), stage.places(), stage.position()) == ([], [], None)
    stage.sink.database.close()
    stage.write(log)
    assert (len(stage.stored()), stage.places(), stage.position()) == (3_999, [(0, 3_000)], 4_000)
    stage.close()


def test_beyond_the_bound_the_partition_stops_with_the_bound_and_the_last_error(
    staged: Callable[[OnError], Stage],
) -> None:
    stage = staged(OnError("dead-letter", share=0.01, per_minute=60))
    stage.claim(0, 1)
    bad = {(0, o): BAD if o % 50 == 0 else 1 for o in range(1_000)}  # 2 %
    said = r"partition 0: more than 60 records, or more than 1.00% .* the partition stops; the last error: \w+: "
    with pytest.raises(TooManyDeadLetters, match=said):
        stage.write(bad)
    assert (stage.stored(), stage.places()) == ([], [])
    # Within the failed batch not even one record may fail, or an outage would become dead letters piece by piece.
    with pytest.raises(TooManyDeadLetters, match=said):
        stage.write({(0, 0): BAD})
    stage.write({(1, 0): BAD, (1, 1): 1})
    assert (stage.places(), stage.stored()) == ([(1, 0)], [(1, 1)])
    stage.counts.stop(1, NEWER.epoch, 10)  # of another grant of the partition
    stage.write({(1, 2): BAD, (1, 3): 1})
    assert stage.places() == [(1, 0), (1, 2)]


def test_ten_records_of_a_quiet_minute_are_no_broken_pipeline_and_eleven_are(
    staged: Callable[[OnError], Stage],
) -> None:
    stage = staged(OnError("dead-letter"))
    stage.claim(0)
    for offset in range(10):
        stage.write({(0, offset): BAD})
    with pytest.raises(TooManyDeadLetters):
        stage.write({(0, 10): BAD})
    stage.clock.advance(61)
    with pytest.raises(TooManyDeadLetters):
        stage.write({(0, 10): BAD})
    stage.write({(0, 10): 1})
    stage.write({(0, 11): BAD})
    assert len(stage.places()) == 11


def restarted(stage: Stage) -> Stage:
    """The consumer after a restart: nothing in memory, and a new grant of the partition."""
    after = Stage(stage.url, stage.recovery.policy, stage.cluster)
    after.claim(0)
    return after


def test_the_bound_counts_the_letters_of_the_minute_before_a_restart(staged: Callable[[OnError], Stage]) -> None:
    stage = staged(OnError("dead-letter"))
    stage.claim(0)
    for offset in range(10):
        stage.write({(0, offset): BAD})
    with closing(restarted(stage)) as again, pytest.raises(TooManyDeadLetters):
        again.write({(0, 10): BAD})
    assert len(stage.places()) == 10
    stage.execute(f"UPDATE {table.TABLE} SET failed_at_ms = failed_at_ms - 61000 WHERE cluster = ?", stage.cluster)
    with closing(restarted(stage)) as again:
        again.write({(0, 10): BAD})
    assert len(stage.places()) == 11


def test_the_share_after_a_restart_is_of_the_records_since_the_minutes_first_letter(
    staged: Callable[[OnError], Stage],
) -> None:
    stage = staged(OnError("dead-letter"))
    stage.claim(0)
    for start in range(0, 4_000, 200):
        stage.write({(0, start + offset): BAD if offset == 150 else 1 for offset in range(200)})
    with closing(restarted(stage)) as again:
        again.write({(0, 4_000 + offset): BAD if offset == 199 else 1 for offset in range(200)})
        assert len(stage.places()) == 21, "21 of 4,050 are less than 1 %, and 21 of 200 would be more"
        again.clock.advance(61)
        for start in range(4_200, 4_210):
            again.write({(0, start): BAD})
        with pytest.raises(TooManyDeadLetters):
            again.write({(0, 4_210): BAD})


@pytest.mark.parametrize("change", ["tries = 2", "topic_id = 'id-0'", '"offset" = "offset" + 100'])
def test_letters_of_replays_former_topics_and_records_to_come_do_not_count_after_a_restart(
    staged: Callable[[OnError], Stage], change: str
) -> None:
    stage = staged(OnError("dead-letter", share=1.0, per_minute=10))
    stage.claim(0)
    stage.write({(0, offset): BAD for offset in range(10)})
    stage.execute(f"UPDATE {table.TABLE} SET {change} WHERE cluster = ?", stage.cluster)
    with closing(restarted(stage)) as again:
        again.write({(0, 10): BAD})
    assert len(stage.places()) == 11


def test_a_letter_that_comes_again_replaces_the_former_one(stage: Stage) -> None:
    stage.claim(0)
    stage.write({(0, 0): BAD})
    stage.execute('UPDATE consumer_positions SET "offset" = 0 WHERE cluster = ?', stage.cluster)
    stage.write({(0, 0): BAD})
    assert stage.places() == [(0, 0)]


def test_a_row_of_a_later_release_is_refused(stage: Stage) -> None:
    stage.claim(0)
    stage.write({(0, 0): BAD})
    for change in ("version = 2", "headers = '[1]'"):
        stage.execute(f"UPDATE {table.TABLE} SET {change} WHERE cluster = ?", stage.cluster)
        with pytest.raises(LetterUnreadable, match="partition 0, offset 0"):
            stage.letters()
        stage.execute(f"UPDATE {table.TABLE} SET version = 1 WHERE cluster = ?", stage.cluster)


@pytest.mark.parametrize(("limit", "most_bytes"), [(1, 2**20), (2, 2**20), (100, 1), (100, 2**20)])
def test_a_replay_gets_each_letter_once_and_a_bad_row_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, limit: int, most_bytes: int
) -> None:
    stage.claim(0, 1)
    stage.write({(partition, offset): BAD for partition in (0, 1) for offset in range(3)})
    changed = f'UPDATE {table.TABLE} SET version = 2 WHERE cluster = ? AND "partition" = 0 AND "offset" = 1'
    stage.execute(changed, stage.cluster)
    monkeypatch.setattr(replaying, "PAGE", limit)
    monkeypatch.setattr(table, "MAX_PAGE_BYTES", most_bytes)
    pages = list(replaying.pages_of(Database(stage.url), {"cluster": stage.cluster}))
    places = [(letter.place.partition, letter.place.offset) for page in pages for letter in page.letters]
    assert places == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [error.problem[:18] for page in pages for error in page.unreadable] == ["the row has format"]


def test_values_that_the_client_cannot_send_are_the_records_fault(stage: Stage) -> None:
    stage.claim(0)
    stage.sink.store = lambda cursor, part: ROWS.append(
        cursor, [[row["topic"], 0, row["offset"], 2**70 if row["number"] == 2 else 1] for row in part.to_pylist()]
    )
    stage.write({(0, 0): 1, (0, 1): 2, (0, 2): 1})
    assert (stage.stored(), stage.places()) == ([(0, 0), (0, 2)], [(0, 1)])


class Refusing(Counting):
    """Counts the rows of each key, and does not bear the key `bad`."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's names
        if key[0] == "bad":
            raise ValueError("a bad key")
        yield from super().handleInputRows(key, rows, timerValues)


def test_a_record_that_a_stateful_processor_refuses_leaves_state_and_rows_of_the_others(url: str) -> None:
    bench, stage = Bench(url, Refusing()), Stage(url)
    bench.claim("a", TOKEN)
    for batch in ("xyx", "xBz", "xx"):
        start = bench.offsets.get(0, 0)
        rows = [
            {"key": "bad" if key == "B" else key, "amount": 1, "partition": 0, "offset": start + number}
            for number, key in enumerate(batch)
        ]
        steps = {0: SinkStep(TOKEN, start, start + len(batch))}
        stage.recovery.write(bench.sinks["a"], bench.writer("a"), steps, arrow(rows, bench.rows), Bad())
        bench.offsets[0] = start + len(batch)
    stage.cluster = bench.cluster
    (letter,) = stage.letters()
    assert (letter.place.offset, letter.kind) == (4, "ProcessorFailed")
    assert "at key ('bad',): ValueError: a bad key" in letter.error
    assert [total for total in bench.totals() if total[0] == "x"] == [("x", "2"), ("x", "3"), ("x", "5")]
    stage.close()
    bench.close()


def test_idle_partitions_of_a_batch_with_a_bad_record_are_added_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[tuple[list[int], int]] = []
    real = stage.sink._add

    def add(cursor: Any, writer: Any, steps: Any, rows: pa.Table) -> None:
        added.append((sorted(steps), rows.num_rows))
        real(cursor, writer, steps, rows)

    stage.claim(0, 1)
    monkeypatch.setattr(stage.sink, "_add", add)
    stage.write({(0, 0): 1, (0, 1): BAD}, steps={1: SinkStep(TOKEN, 7, 7)})
    assert added == [([0, 1], 2), ([1], 0), ([0], 1), ([0], 1)]
    assert (stage.stored(), stage.places(), stage.position(1)) == ([(0, 0)], [(0, 1)], 7)


def with_problems(stage: Stage, numbers: dict[tuple[int, int], Any], problems: dict[tuple[int, int], str]) -> Any:
    rows = stage.rows(numbers).append_column("wrong", pa.array([problems.get(place) for place in numbers], pa.string()))
    steps, bad = {0: SinkStep(TOKEN, 0, len(numbers))}, Bad()
    kept = stage.recovery.without_problems(rows, steps, bad)
    return stage.recovery.write(stage.sink, stage.writer, steps, kept, bad)


def test_records_with_a_problem_go_to_the_dead_letters_and_the_others_to_the_sink(
    staged: Callable[[OnError], Stage],
) -> None:
    stage = staged(replace(GENEROUS, problem_column="wrong"))
    stage.claim()
    with_problems(stage, {(0, 0): 1, (0, 1): 1, (0, 2): BAD, (0, 3): 1}, {(0, 1): "no JSON\0"})
    assert (stage.stored(), stage.places()) == ([(0, 0), (0, 3)], [(0, 1), (0, 2)])
    assert (stage.letters()[0].stage, stage.letters()[0].kind) == (FailedStage.PROBLEM, "RecordHasProblem")
    assert stage.letters()[0].error == "no JSON"


def test_all_rows_of_a_record_with_a_problem_are_left_out(staged: Callable[[OnError], Stage]) -> None:
    stage = staged(replace(GENEROUS, problem_column="wrong"))
    stage.claim()
    rows = pa.concat_tables([stage.rows({(0, 0): 1, (0, 1): 1}), stage.rows({(0, 1): 2})])
    rows, steps, bad = rows.append_column("wrong", pa.array([None, None, "cut"])), {0: SinkStep(TOKEN, 0, 2)}, Bad()
    kept = stage.recovery.without_problems(rows, steps, bad)
    stage.recovery.write(stage.sink, stage.writer, steps, kept, bad)
    assert (stage.stored(), stage.places()) == ([(0, 0)], [(0, 1)])


def test_a_problem_stops_the_partition_where_bad_records_stop(staged: Callable[[OnError], Stage]) -> None:
    stage = staged(OnError(problem_column="wrong"))
    stage.claim()
    with pytest.raises(RecordHasProblem, match="partition 0, offset 1: no JSON"):
        with_problems(stage, {(0, 0): 1, (0, 1): 1}, {(0, 1): "no JSON"})
    with_problems(stage, {(0, 0): 1}, {})
    assert stage.stored() == [(0, 0)]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_of_a_lakehouse_gets_the_good_rows_after_the_letters_are_kept(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, stage = bench_of(kind, request, tmp_path / "tables", monkeypatch), Stage(f"sqlite:///{tmp_path}/letters")
    assert isinstance(bench, TableBench)
    sink, steps, bad = bench.sinks["a"], {0: SinkStep(TOKEN, 0, 4)}, Bad()
    rows = rows_of(stage.writer, steps)
    good = rows.filter(pc.not_equal(rows["offset"], 2))
    recovery = Recovery(GENEROUS, stage.runner, stage.read, database=Database(stage.url))
    recovery.found(steps, bad, FailedStage.PIPELINE, 0, 2, ValueError("no number"))
    patient_claim(sink, stage.writer, {0: TOKEN})
    with monkeypatch.context() as away:
        away.setattr(sink._written, "commit", Mock(side_effect=SinkUnavailable("away")))
        with pytest.raises(SinkUnavailable):
            recovery.write_beside(sink, stage.writer, steps, good, bad)
    assert (stage.places(), bench.table().num_rows, stage.counts.total) == ([(0, 2)], 0, 0)
    assert recovery.write_beside(sink, stage.writer, steps, good, bad) == {}
    assert (stage.places(), stage.counts.total) == ([(0, 2)], 1)
    assert sorted(bench.table()["offset"].to_pylist()) == [0, 1, 3]
    bench.close()
    stage.close()
