"""The contract of a sink for exactly once: the same tests on each database and each table format."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_tasks.core.model import Token
from spark_apps.delivery import PositionMoved, SinkEntry, SinkStep
from tests.sink_bench import NEW, OLD, SINKS, Bench, bench_of

CLAIMED_AGAIN = "nothing was written; the partition is claimed again and read from .*: check who"


@pytest.fixture(params=SINKS)
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = bench_of(request.param, request, tmp_path, monkeypatch)
    yield made
    made.close()


def test_rows_and_position_appear_together(bench: Bench) -> None:
    assert bench.claim("a", OLD) == {0: SinkEntry(OLD, "a", None)}
    assert bench.write("a", OLD, 10, 13) == {}
    assert bench.write("a", OLD, 13, 13) == {}  # a range of control records: no row, but a position
    assert bench.write("a", OLD, 13, 15) == {}
    assert bench.offsets() == [10, 11, 12, 13, 14]
    assert bench.claim("b", NEW) == {0: SinkEntry(NEW, "b", 15)}


def test_a_failure_in_the_middle_leaves_neither(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.failing = True
    with pytest.raises(ZeroDivisionError):
        bench.write("a", OLD, 0, 5)
    bench.failing = False
    assert bench.offsets() == []
    assert bench.claim("b", NEW)[0].offset is None
    assert bench.write("b", NEW, 0, 5) == {}


def test_from_a_claim_on_the_former_owner_writes_nothing_of_that_partition_and_goes_on_with_the_others(
    bench: Bench,
) -> None:
    bench.claim("a", OLD, 0, 1)
    bench.write("a", OLD, 0, 2, 0, 1)
    assert bench.claim("b", NEW, 1) == {1: SinkEntry(NEW, "b", 2)}
    assert bench.write("a", OLD, 2, 4, 0, 1) == {1: SinkEntry(NEW, "b", 2)}
    assert (bench.offsets(0), bench.offsets(1)) == ([0, 1, 2, 3], [0, 1])
    assert bench.write("b", NEW, 2, 4, 1) == {}
    assert bench.offsets(1) == [0, 1, 2, 3]


def test_an_older_claim_is_answered_with_what_stands_there(bench: Bench) -> None:
    bench.claim("b", NEW)
    found = bench.claim("a", OLD)
    assert found == {0: SinkEntry(NEW, "b", None)}
    assert found[0].refuses(OLD, "a")
    assert bench.write("a", OLD, 0, 5) == found
    assert bench.offsets() == []


def test_two_that_seem_to_have_acquired_at_one_epoch_do_not_share_it(bench: Bench) -> None:
    bench.claim("a", OLD)
    for name, token in (("b", OLD), ("a", Token(3, 1, "g2"))):
        assert bench.claim(name, token)[0].refuses(token, name)
        assert bench.write(name, token, 0, 1).keys() == {0}
    assert bench.claim("a", OLD) == {0: SinkEntry(OLD, "a", None)}


def test_a_position_that_is_not_the_batchs_start_is_an_error(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, 0, 3)
    for start, end in ((2, 4), (4, 6)):
        with pytest.raises(
            PositionMoved, match=f"offset 3 of epoch 3, and the batch begins at .*edited.*{CLAIMED_AGAIN}"
        ):
            bench.write("a", OLD, start, end)
    assert bench.offsets() == [0, 1, 2]


def test_a_batch_under_a_token_that_was_not_claimed_is_an_error(bench: Bench) -> None:
    bench.claim("a", OLD)
    with pytest.raises(PositionMoved, match="of epoch 3, and the batch begins at 0 of epoch 5"):
        bench.write("a", NEW, 0, 3)
    assert bench.offsets() == []


def test_a_position_that_was_deleted_is_an_error(bench: Bench) -> None:
    bench.claim("a", OLD, 0)
    with pytest.raises(PositionMoved, match=f"partition 1 is gone .*deleted.*{CLAIMED_AGAIN}"):
        bench.write("a", OLD, 0, 3, 0, 1)
    assert bench.offsets() == []


def test_rows_without_a_step_are_not_written(bench: Bench) -> None:
    bench.claim("a", OLD)
    rows = pa.table({"topic": ["t", "t"], "partition": [0, 1], "offset": [0, 0], "text": ["x", "y"]})
    for steps in ({}, {0: SinkStep(OLD, 0, 1)}):
        with pytest.raises(
            PositionMoved, match=r"has rows and no step: the pipeline .*nothing was written; let the pipeline"
        ):
            bench.sinks["a"].write(bench.writer("a"), steps, rows)
    assert bench.offsets() == []


def test_a_batch_of_nothing_changes_nothing(bench: Bench) -> None:
    bench.claim("a", OLD)
    rows = pa.table({"topic": [], "partition": pa.array([], pa.int32()), "offset": [], "text": []})
    assert bench.sinks["a"].write(bench.writer("a"), {}, rows) == {}
    assert bench.offsets() == []
    assert bench.claim("b", NEW) == {0: SinkEntry(NEW, "b", None)}


def test_a_topic_that_was_recreated_begins_without_a_position_whatever_its_epochs_are(bench: Bench) -> None:
    bench.claim("a", NEW)
    bench.write("a", NEW, 0, 3)
    assert bench.claim("b", OLD, topic_id="id-2") == {0: SinkEntry(OLD, "b", None)}
    assert bench.write("a", NEW, 3, 4).keys() == {0}


def test_what_was_written_before_a_seek_says_nothing_of_where_to_go_on(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, 0, 3)
    assert bench.claim("b", NEW, sought=OLD.epoch + 1) == {0: SinkEntry(NEW, "b", None)}
    bench.write("b", NEW, 10, 12)
    assert bench.claim("a", Token(6, 2, "g1"), sought=NEW.epoch) == {0: SinkEntry(Token(6, 2, "g1"), "a", 12)}
    assert bench.claim("b", NEW, sought=99)[0].offset == 12  # who is refused changes nothing


def test_two_clusters_keep_their_own_positions(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, 0, 3)
    bench.cluster = f"other-{bench.cluster}"
    assert bench.claim("b", OLD) == {0: SinkEntry(OLD, "b", None)}
