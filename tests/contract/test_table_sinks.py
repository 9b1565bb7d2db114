"""Sinks on tables of a lakehouse: deaths at each point of a commit, other writers, and tables that change."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_tasks.core.model import Token
from spark_apps.delivery import PositionMoved, SinkEntry, SinkStep, SinkUnavailable
from spark_apps.lakehouse import TableRefused
from spark_apps.lakehouse.table_sink import CLAIM_WAIT_S
from tests.sink_bench import NEW, OLD, TABLES, TableBench, bench_of, patient_claim, rows_of, table_sink
from tests.table_writer import BATCH, PARTITIONS, WRITER

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=TABLES)
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableBench]:
    made = bench_of(request.param, request, tmp_path, monkeypatch)
    assert isinstance(made, TableBench)
    yield made
    made.close()


def killed_writer(bench: TableBench, epoch: int, after_s: float, *point: str) -> None:
    command = [sys.executable, "-m", "tests.table_writer", bench.kind, str(bench.folder), str(epoch), *point]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        if not point:
            time.sleep(after_s)
            process.kill()
        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.timeout(300)
def test_a_writer_killed_anywhere_in_a_commit_leaves_nothing_lost_and_nothing_doubled(bench: TableBench) -> None:
    chance = random.Random(7)
    points = [("before",), ("after",), *[()] * 6]
    for epoch, point in enumerate(points, 1):
        killed_writer(bench, epoch, chance.uniform(0.1, 1.2), *point)
    found = patient_claim(bench.sink(), WRITER, dict.fromkeys(PARTITIONS, Token(99, 1, "g1")))
    rows = bench.table().to_pylist()
    for partition in PARTITIONS:
        offsets = sorted(row["offset"] for row in rows if row["partition"] == partition)
        assert offsets == list(range(found[partition].offset or 0))
        assert len(offsets) >= 5 * BATCH


def test_consumers_that_write_at_once_keep_each_row_once(bench: TableBench) -> None:
    def consume(partition: int) -> None:
        sink, start = bench.sink(), 0
        patient_claim(sink, WRITER, {partition: OLD})
        for start in range(0, 40, 10):
            steps = {partition: SinkStep(OLD, start, start + 10)}
            assert sink.write(WRITER, steps, rows_of(WRITER, steps)) == {}

    with ThreadPoolExecutor() as pool:
        list(pool.map(consume, range(4)))
    rows = bench.table().to_pylist()
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(p, o) for p in range(4) for o in range(40)]


def test_consumers_that_begin_at_once_create_the_table_once(bench: TableBench) -> None:
    def begin(partition: int) -> None:
        sink = table_sink(bench.kind, bench.folder / "new")
        assert patient_claim(sink, WRITER, {partition: OLD}) == {partition: SinkEntry(OLD, "a", None)}

    with ThreadPoolExecutor() as pool:
        list(pool.map(begin, range(6)))
    assert bench.table("new").num_rows == 0


def test_a_claim_between_a_batchs_read_and_its_commit_refuses_the_batch(bench: TableBench) -> None:
    bench.claim("a", OLD, 0, 1)
    bench.before_commits("a", lambda: bench.claim("b", NEW, 1))
    assert bench.write("a", OLD, 0, 3, 0, 1) == {1: SinkEntry(NEW, "b", None)}
    assert (bench.offsets(0), bench.offsets(1)) == ([0, 1, 2], [])


def test_a_batch_between_a_claims_read_and_its_commit_is_in_the_claims_position(bench: TableBench) -> None:
    bench.claim("a", OLD)
    bench.before_commits("b", lambda: bench.write("a", OLD, 0, 3), claims=True)
    assert bench.claim("b", NEW) == {0: SinkEntry(NEW, "b", 3)}
    assert bench.write("a", OLD, 3, 5).keys() == {0}
    assert bench.offsets() == [0, 1, 2]


def test_other_programs_may_append_and_compact_meanwhile(bench: TableBench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, 0, 3)
    writer = bench.writer("other", "id-1")
    foreign = rows_of(writer, {7: SinkStep(OLD, 0, 1)})
    bench.before_commits("a", bench.compact, lambda: bench.append(foreign))
    for start in range(3, 12, 3):
        assert bench.write("a", OLD, start, start + 3) == {}
    assert bench.offsets() == list(range(12))
    assert bench.claim("b", NEW)[0].offset == 12
    assert bench.offsets(7) == [0]


def test_positions_and_tokens_survive_the_clean_up_of_old_versions(bench: TableBench) -> None:
    bench.claim("a", OLD)
    bench.claim("b", NEW, 1)
    bench.write("a", OLD, 0, 3)
    bench.clean_up()
    newcomer = bench.sinks["b"] = bench.sink()
    found = patient_claim(newcomer, bench.writer("b"), {0: Token(2, 9, "g1"), 1: NEW})
    assert (found[0].token, found[0].offset) == (OLD, 3)
    assert found[0].refuses(Token(2, 9, "g1"), "b")
    assert found[0].refuses(OLD, "b")
    assert found[1] == SinkEntry(NEW, "b", None)
    assert bench.claim("b", NEW)[0] == SinkEntry(NEW, "b", 3)
    assert bench.write("b", NEW, 3, 5, 0) == {}
    assert bench.offsets() == [0, 1, 2, 3, 4]


def test_a_new_column_of_the_rows_is_refused_or_added(bench: TableBench) -> None:
    bench.claim("a", OLD)
    steps = {0: SinkStep(OLD, 0, 2)}
    rows = rows_of(bench.writer("a"), steps).append_column("price", pa.array([1.5, 2.5]))
    with pytest.raises(TableRefused, match="has no column 'price'; add the column"):
        bench.sinks["a"].write(bench.writer("a"), steps, rows)
    assert bench.offsets() == []
    bench.sinks["a"] = bench.sink(evolve=True)
    assert bench.sinks["a"].write(bench.writer("a"), steps, rows) == {}
    assert bench.write("a", OLD, 2, 3) == {}  # rows of an older pipeline
    found = {row["offset"]: row["price"] for row in bench.table().to_pylist()}
    assert found == {0: 1.5, 1: 2.5, 2: None}


@pytest.mark.parametrize(
    ("column", "values"), [("offset", pa.array(["x"])), ("partition", pa.array([2**31])), ("offset", pa.array([0.5]))]
)
def test_a_value_that_does_not_fit_is_refused_with_its_column(bench: TableBench, column: str, values: pa.Array) -> None:
    bench.claim("a", OLD)
    steps = {0: SinkStep(OLD, 0, 1)}
    rows = rows_of(bench.writer("a"), steps)
    place = rows.column_names.index(column)
    steps = {2**31: SinkStep(OLD, 0, 1)} if column == "partition" else steps
    bench.claim("a", OLD, *steps)
    with pytest.raises(TableRefused, match=f"column '{column}' of .* does not fit"):
        bench.sinks["a"].write(bench.writer("a"), steps, rows.set_column(place, column, values))
    assert bench.table().num_rows == 0


def test_a_table_without_the_column_partition_gets_the_other_columns(bench: TableBench) -> None:
    names = ["topic", "offset", "text"]
    sink = table_sink(bench.kind, bench.folder / "narrow", columns=names)
    patient_claim(sink, bench.writer("a"), {0: OLD})
    steps = {0: SinkStep(OLD, 0, 2)}
    assert sink.write(bench.writer("a"), steps, rows_of(bench.writer("a"), steps)) == {}
    found = bench.table("narrow")
    assert (found.column_names, found.num_rows) == (names, 2)


def written_files(bench: TableBench, name: str, rows: pa.Table) -> pa.Table:
    """The names of the files that an executor has written."""
    writer = pickle.loads(pickle.dumps(bench.sinks[name]._written.file_writer()))
    return pa.Table.from_batches(list(writer(iter(rows.to_batches(max_chunksize=4)))))


def test_files_of_executors_are_committed_without_the_partitions_under_another_token(bench: TableBench) -> None:
    bench.claim("a", OLD, 0, 1)
    writer, steps = bench.writer("a"), {0: SinkStep(OLD, 0, 10), 1: SinkStep(OLD, 0, 10)}
    files = written_files(bench, "a", rows_of(writer, steps))
    assert (files["partition"].to_pylist(), bench.table().num_rows) == ([0, 1], 0)
    bench.claim("b", NEW, 1)
    assert bench.sinks["a"].write(writer, steps, files).keys() == {1}
    assert (bench.offsets(0), bench.offsets(1)) == (list(range(10)), [])
    assert bench.claim("b", NEW, 0)[0].offset == 10
    again = {0: SinkStep(OLD, 10, 12)}
    assert bench.sinks["a"].write(writer, again, written_files(bench, "a", rows_of(writer, again))).keys() == {0}
    none = {0: SinkStep(NEW, 10, 12)}
    nothing = written_files(bench, "b", rows_of(writer, {}))
    assert bench.sinks["b"].write(bench.writer("b"), none, nothing) == {}
    assert bench.table()["text"].to_pylist() == [f"a{offset}" for offset in range(10)]
    assert bench.table()["offset"].to_pylist() == list(range(10))


def test_other_programs_may_compact_files_of_executors(bench: TableBench) -> None:
    bench.claim("a", OLD)
    for start in (0, 5):
        steps = {0: SinkStep(OLD, start, start + 5)}
        files = written_files(bench, "a", rows_of(bench.writer("a"), steps))
        assert bench.sinks["a"].write(bench.writer("a"), steps, files) == {}
    bench.compact()
    assert bench.write("a", OLD, 10, 12) == {}
    assert bench.offsets() == list(range(12))


def test_time_travel_leads_to_the_rows_before_a_rebalance(bench: TableBench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, 0, 3)
    bench.claim("b", NEW)
    bench.write("b", NEW, 3, 6)
    versions = bench.claims()
    assert [(found["consumer"], found["partitions"]["0"]["epoch"]) for _, found in versions] == [("a", 3), ("b", 5)]
    assert sorted(bench.table(version=versions[1][0])["offset"].to_pylist()) == [0, 1, 2]


def test_a_slow_claim_goes_on_and_the_repeated_call_gets_its_result(bench: TableBench) -> None:
    going = threading.Event()
    bench.before_commits("a", lambda: going.wait(10), claims=True)
    began = time.monotonic()
    with pytest.raises(SinkUnavailable, match="has not taken the claim within"):
        bench.sinks["a"].claim(bench.writer("a"), {0: OLD}, {0: 0})
    assert time.monotonic() - began < CLAIM_WAIT_S + 0.5
    going.set()
    assert bench.claim("a", OLD) == {0: SinkEntry(OLD, "a", None)}


def test_a_missing_table_is_refused(bench: TableBench) -> None:
    sink = table_sink(bench.kind, bench.folder / "nowhere", columns=None)
    with pytest.raises(TableRefused, match=r"there is no .*; create the table, or give .*Sink a schema"):
        sink.claim(bench.writer("a"), {0: OLD}, {})


def test_a_table_that_was_replaced_between_claim_and_batch_takes_nothing(bench: TableBench) -> None:
    bench.claim("a", OLD)
    bench.replace()
    with pytest.raises(PositionMoved, match="is gone from"):
        bench.write("a", OLD, 0, 3)
    assert bench.claim("a", OLD) == {0: SinkEntry(OLD, "a", None)}
    assert bench.write("a", OLD, 0, 3) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_in_the_middle_of_a_commit_loses_and_doubles_nothing(
    request: pytest.FixtureRequest, bench: TableBench, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    request.addfinalizer(lambda: subprocess.run(["umount", "--lazy", str(disk)], check=False))
    full, reached = table_sink(bench.kind, disk), 0
    patient_claim(full, WRITER, {0: OLD})

    def batch(start: int) -> int:
        steps = {0: SinkStep(OLD, start, start + 100)}
        text = pa.array([random.randbytes(200).hex() for _ in range(100)])
        full.write(WRITER, steps, rows_of(WRITER, steps).set_column(3, "text", text))
        return start + 100

    with pytest.raises((SinkUnavailable, TableRefused), match="No space left"):  # noqa: PT012 - at one of many batches
        while reached < 10_000:
            reached = batch(reached)
    assert reached
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    found = patient_claim(full, WRITER, {0: OLD})
    assert found[0].offset == reached
    reached = batch(reached)
    rows = bench.table(folder=disk)
    assert sorted(rows["offset"].to_pylist()) == list(range(reached))


@pytest.mark.parametrize(("module", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_missing_package_is_named_with_its_extra(module: str, package: str) -> None:
    program = f"import sys; sys.modules['{package}'] = None; import spark_apps.lakehouse.{module}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert f"needs {package}, which is not installed here" in run.stderr
    assert f"kafka-partition-coordinator[{module}]" in run.stderr
