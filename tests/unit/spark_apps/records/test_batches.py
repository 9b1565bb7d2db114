"""Offsets, admission and grouping of a batch's ranges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.errors import OffsetMalformed
from spark_apps.records.batches import (
    BatchOffset,
    Range,
    admit,
    behind,
    decode_offset,
    encode_offset,
    piece_size,
    plan_tasks,
)

sizes = st.lists(st.integers(0, 10**9), max_size=40)
GOOD = {"version": 1, "topic": "orders", "batch": 3, "parallelism": 2, "ranges": {"0": [5, 9, 7], "10": [0, 0, 1]}}


def ranges_of(found_sizes: list[int]) -> list[Range]:
    return [Range(partition, 100, 100 + size, 1) for partition, size in enumerate(found_sizes)]


def offset_of(found_sizes: list[int], parallelism: int) -> BatchOffset:
    return BatchOffset("orders").following(ranges_of(found_sizes), parallelism)


@given(sizes, st.integers(1, 16), st.integers(0, 10**6))
def test_an_offset_survives_its_json(found_sizes: list[int], parallelism: int, piece: int) -> None:
    offset = BatchOffset("orders").following(ranges_of(found_sizes), parallelism, piece)
    assert decode_offset(json.loads(json.dumps(encode_offset(offset)))) == offset


def test_fields_of_a_later_release_are_ignored() -> None:
    assert decode_offset({**GOOD, "later": True}) == decode_offset(GOOD)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"version": 2}, "format version 2", id="a version of the future"),
        pytest.param({"version": None}, "format version None", id="no version"),
        pytest.param({"version": True}, "format version True", id="true is no version"),
        pytest.param({"topic": ""}, "no topic", id="an empty topic"),
        pytest.param({"batch": -1}, "-1", id="a negative batch"),
        pytest.param({"batch": 2.0}, "2.0", id="a batch with a fraction"),
        pytest.param({"ranges": []}, "no ranges", id="ranges in a list"),
        pytest.param({"ranges": {"01": [0, 1, 1]}}, "'01'", id="a partition with a leading zero"),
        pytest.param({"ranges": {"x": [0, 1, 1]}}, "'x'", id="a partition that is no number"),
        pytest.param({"ranges": {str(2**31): [0, 1, 1]}}, str(2**31), id="a partition that Kafka cannot have"),
        pytest.param({"ranges": {"9" * 5_000: [0, 1, 1]}}, "99", id="a partition with too many digits to be read"),
        pytest.param({"ranges": {"1": [0, 1]}}, "partition 1", id="a range without its epoch"),
        pytest.param({"ranges": {"1": [5, 4, 1]}}, "ends before it begins", id="a range that runs backwards"),
        pytest.param({"ranges": {"1": [0, 2**63, 1]}}, "partition 1", id="an offset that Kafka cannot have"),
    ],
)
def test_an_offset_that_is_not_ours_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(OffsetMalformed, match=says):
        decode_offset({**GOOD, **change})


@given(sizes, st.integers(1, 16))
def test_tasks_hold_every_range_with_anything_in_it_exactly_once(found_sizes: list[int], parallelism: int) -> None:
    offset = offset_of(found_sizes, parallelism)
    tasks = plan_tasks(offset)
    assert sorted(one for task in tasks for one in task) == [one for one in ranges_of(found_sizes) if one.size]
    assert len(tasks) <= parallelism
    assert all(tasks)


@given(st.lists(st.integers(0, 10**6), max_size=20), st.integers(1, 40))
def test_pieces_are_every_offset_once_and_no_larger_than_asked(found_sizes: list[int], parts: int) -> None:
    piece = piece_size(ranges_of(found_sizes), parts, None)
    tasks = plan_tasks(BatchOffset("orders").following(ranges_of(found_sizes), 2, piece))
    assert all(len(task) == 1 and 0 < task[0].size <= piece for task in tasks)
    joined: list[Range] = []
    for (one,) in tasks:
        if joined and (joined[-1].partition, joined[-1].end) == (one.partition, one.start):
            joined[-1] = Range(one.partition, joined[-1].start, one.end, one.token_epoch)
        else:
            joined.append(one)
    assert joined == [one for one in ranges_of(found_sizes) if one.size]


@pytest.mark.parametrize(
    ("found_sizes", "least", "most", "tasks"),
    [
        pytest.param([100], 4, None, 4, id="one partition in several tasks, also when it is small"),
        pytest.param([3000, 1000], 4, None, 4, id="in proportion to the sizes"),
        pytest.param([10, 10, 10], 2, None, 3, id="as in Spark, no task reads two partitions then"),
        pytest.param([100, 1, 1, 1], 4, None, 4, id="as in Spark, nothing is cut where there are enough ranges"),
        pytest.param([100, 0, 0, 0], 4, None, 4, id="of those that have anything to read"),
        pytest.param([3], 8, None, 3, id="no more tasks than offsets"),
        pytest.param([100, 10], None, 40, 4, id="no task above the maximum"),
        pytest.param([100], 2, 20, 5, id="the smaller piece counts"),
        pytest.param([100], 10, 20, 10, id="also where it is the other one"),
    ],
)
def test_ranges_are_cut_into_tasks(found_sizes: list[int], least: int | None, most: int | None, tasks: int) -> None:
    ranges = ranges_of(found_sizes)
    offset = BatchOffset("orders").following(ranges, 2, piece_size(ranges, least, most))
    assert len(plan_tasks(offset)) == tasks


def test_how_far_partitions_are_behind_is_said_by_partition_and_summed_up() -> None:
    found = behind(offset_of([5, 0, 10], 1))
    assert found["lag"] == {"0": 5, "1": 0, "2": 10}
    assert [found[f"{name}OffsetsBehindLatest"] for name in ("min", "max", "avg")] == [0, 10, 5.0]
    assert behind(BatchOffset("orders"))["maxOffsetsBehindLatest"] == 0


@given(sizes, st.integers(1, 10**6))
def test_admission_starves_nobody_and_never_reads_past_the_end(found_sizes: list[int], limit: int) -> None:
    available = ranges_of(found_sizes)
    admitted = {one.partition: one for one in admit(available, limit)}
    for one in available:
        if one.size == 0:
            assert one.partition not in admitted
            continue
        got = admitted[one.partition]
        assert (got.start, got.token_epoch) == (one.start, one.token_epoch)
        assert one.start < got.end <= one.end
    assert sum(one.size for one in admitted.values()) <= limit + len(admitted)


@pytest.mark.parametrize(
    ("found_sizes", "limit", "expected"),
    [
        pytest.param([10, 20], None, [10, 20], id="no limit admits all"),
        pytest.param([10, 20], 30, [10, 20], id="a limit that is not reached admits all"),
        pytest.param([100, 300], 40, [10, 30], id="in proportion to the sizes"),
        pytest.param([1, 1000], 10, [1, 9], id="the small one gets at least one, the share of the large is cut"),
        pytest.param([50, 0, 50], 10, [5, 5], id="empty partitions take no share"),
    ],
)
def test_admission_as_spark_does_it(found_sizes: list[int], limit: int | None, expected: list[int]) -> None:
    assert [one.size for one in admit(ranges_of(found_sizes), limit)] == expected
