"""What the metrics say of a topic, on a broker in memory."""

import pytest

from coordinator_tasks.core.model import Token
from tests.unit.spark_apps.agent.ownership.stage import Stage, list_offsets


def test_a_partition_shows_its_position_and_how_far_behind_it_is(stage: Stage) -> None:
    stage.own(0)
    list_offsets(stage)
    stage.hand_out(0, 40)
    stage.clock.advance(2.0)
    stage.cover()
    stage.clock.advance(10.0)
    stage.kafka.append("t", 0, 50)
    list_offsets(stage)
    (one,) = stage.ownership.figures().partitions.values()
    assert (one.position, one.end, one.lag) == (40, 150, 110)
    assert one.lag_s is not None
    assert 12.0 < one.lag_s < 30.0


def test_batches_and_records_are_counted_once_they_have_passed(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 40)
    assert (stage.ownership.figures().offsets, stage.ownership.figures().batch_buckets[-1]) == (0, ("+Inf", 0))
    stage.clock.advance(0.2)
    stage.cover()
    figures = stage.ownership.figures()
    assert (figures.offsets, figures.batch_s) == (40, pytest.approx(0.2))
    counts = dict(figures.batch_buckets)
    assert (counts["0.1"], counts["0.25"], counts["+Inf"]) == (0, 1, 1)


def test_a_fence_counts_once_and_ends_the_series(stage: Stage) -> None:
    stage.own(0, 1)
    assert stage.ownership.figures().fences == 0
    stage.commit(0, 100, Token(99, 1, "g1"))
    stage.wait(2.0)
    figures = stage.ownership.figures()
    assert (figures.fences, figures.held, list(figures.partitions)) == (1, 1, [1])
    stage.wait(2.0)
    assert stage.ownership.figures().fences == 1
