"""Retries after a failure of the sink or the pipeline, on a manual clock."""

from itertools import cycle

import pytest

from spark_apps.agent.ownership.failing import MOST_AWAY_S
from spark_apps.records.batches import Range
from tests.unit.spark_apps.agent.ownership.stage import Stage, planner_of, stage_with

OUTAGE_S = 120.0
FAILED_TRY_S = 4.0
"""Seconds for a failing batch, the end of the query and the start of the next query, on a busy host."""
PASS_S = 1.0
AWAY = ("SinkUnavailable: connection refused", "SinkUnavailable: the server closed the connection")
UNKNOWN = ("ConnectionError: connection refused",)


def return_after_outage(stage: Stage, reasons: tuple[str, ...]) -> tuple[float, int]:
    """Fail each batch of the first `OUTAGE_S` with the next reason, pass each later one.

    Returns the seconds from the end of the outage until no partition fails, and the number of batches until then.
    """
    planner, clock, why = planner_of(stage, batch_interval_s=0.0), stage.clock, cycle(reasons)
    passed, batches, over_at = planner.initial(), 0, stage.clock.monotonic() + OUTAGE_S
    while clock.monotonic() < over_at or stage.ownership.failing.told():
        assert clock.monotonic() < over_at + OUTAGE_S, "partitions do not return"
        began_at, batch = clock.monotonic(), planner.offer(passed)
        if batch is None:
            stage.tick(0.1)
        elif began_at < over_at:
            stage.tick(FAILED_TRY_S)
            stage.ownership.query_failed(next(why))
        else:
            stage.tick(PASS_S)
            passed, batches = batch, batches + 1
    return clock.monotonic() - over_at, batches


@pytest.mark.parametrize("reasons", [AWAY[:1], AWAY], ids=["one text", "changing texts"])
@pytest.mark.parametrize("partitions", [1, 2, 4, 8])
def test_all_partitions_return_soon_after_the_sink_that_was_away(partitions: int, reasons: tuple[str, ...]) -> None:
    seconds, _ = return_after_outage(stage_with(partitions, 3000), reasons)
    assert seconds <= MOST_AWAY_S + FAILED_TRY_S + 3 * PASS_S


@pytest.mark.parametrize("partitions", [2, 4, 8])
def test_an_absent_sink_without_sink_unavailable_costs_each_partition_a_few_batches(partitions: int) -> None:
    _, batches = return_after_outage(stage_with(partitions, 3000), UNKNOWN)
    assert batches <= 5 * partitions


def test_a_pipeline_that_cannot_start_while_its_sink_is_away_is_tried_at_short_pauses() -> None:
    failing = stage_with(1, 0).ownership.failing
    assert [failing.reading_failed(AWAY[0]) for _ in range(5)] == [1, 2, 4, 8, MOST_AWAY_S]


def test_a_try_that_passes_doubles_the_next_one_and_lets_the_others_go_first() -> None:
    stage = stage_with(2, 100)
    failing, epoch = stage.ownership.failing, stage.ownership.holdings.held[0].token.epoch
    for partition in (0, 1):
        failing.fail([Range(partition, 0, 100, epoch)], UNKNOWN[0])
        stage.clock.advance(5)
    assert (failing.most(0), failing.due()) == (10, [{0}, {1}])
    failing.passed([Range(0, 0, 10, epoch)])
    assert (failing.most(0), failing.most(1), failing.due()) == (20, 10, [{1}, {0}])


def test_one_bad_record_among_partitions_is_found_even_if_the_sink_blames_itself() -> None:
    """A record that crashes the database: the other partitions are read on, the record's partition up to the record."""
    stage = stage_with(4, 300)
    planner, bad = planner_of(stage, batch_interval_s=0.0), 123
    passed, over_at = planner.initial(), stage.clock.monotonic() + 240
    while stage.clock.monotonic() < over_at:
        batch = planner.offer(passed)
        if batch is None:
            stage.tick(0.1)
        elif 2 in batch.ranges and batch.ranges[2].start <= bad < batch.ranges[2].end:
            stage.ownership.query_failed(AWAY[0])
        else:
            stage.tick(PASS_S)
            passed = batch
    assert {p: held.passed for p, held in stage.ownership.holdings.held.items()} == {0: 300, 1: 300, 2: bad, 3: 300}
    assert [failure.partitions for failure in stage.ownership.failing.told()] == [(2,)]
