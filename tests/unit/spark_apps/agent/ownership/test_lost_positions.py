"""Positions before or beyond the log."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, StartRule, Token
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.work import ListOffsets, perform
from spark_apps.agent.settings import Terms
from spark_apps.records.batches import BatchOffset
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, planner_of


def opened(stage: Stage, *, fails: bool) -> BatchPlanner:
    stage.ownership.open(fail_on_data_loss=fails)
    return planner_of(stage)


def measured(stage: Stage, planner: BatchPlanner, start: BatchOffset, seconds: float = 0.1) -> BatchOffset | None:
    """The next batch, with the log's bounds looked at after `seconds`."""
    planner.offer(start)
    stage.tick(seconds)
    return planner.offer(start)


@pytest.mark.parametrize(
    ("rule", "goes_on_at"), [(StartRule.EARLIEST, 40), (StartRule.LATEST, 100)], ids=["earliest", "latest"]
)
def test_a_committed_offset_that_retention_has_passed_is_reported_and_the_start_rule_decides(
    stage: Stage, rule: StartRule, goes_on_at: int
) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    planner = opened(stage, fails=False)
    stage.node = replace(stage.node, epoch=4, start=rule)
    stage.own(0)
    measured(stage, planner, BatchOffset("t"))
    batch = measured(stage, planner, BatchOffset("t"))
    assert stage.committed(0).offset == goes_on_at
    assert (batch.ranges[0].start if batch is not None else 100) == goes_on_at
    assert stage.reported("partition 0: offsets 10 to 39 are gone, the log begins at 40: goes on at")


def test_a_look_before_the_new_start_is_committed_does_not_bring_back_the_lost_one(stage: Stage) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    opened(stage, fails=False)
    stage.ownership.grants.on_node(replace(stage.node, epoch=4, assignments={0: "a"}, since={0: 4}))
    work = stage.ownership.requests.work()
    while work is not None and not isinstance(work, ListOffsets):
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
        work = stage.ownership.requests.work()
    stage.clock.advance(1.0)  # a slow broker: the next look is due
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.tick()
    assert stage.committed(0).offset == 40


@pytest.mark.parametrize(
    ("fails", "rule"), [(True, StartRule.EARLIEST), (False, StartRule.NONE)], ids=["failOnDataLoss", "rule none"]
)
def test_lost_records_stop_their_partition_alone_without_a_commit(stage: Stage, fails: bool, rule: StartRule) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.commit(1, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    planner = opened(stage, fails=fails)
    stage.node = replace(stage.node, epoch=4, start=rule)
    stage.own(0, 1)
    measured(stage, planner, BatchOffset("t"))
    stage.tick(1.0)
    assert stage.ownership.holdings.ready().keys() == {1}
    assert stage.committed(0).offset == 10
    assert stage.reported("offsets 10 to 39 are gone, the log begins at 40: stopped; reset its offsets")
    stage.kafka.expire("t", 0, 0)
    stage.own(0, 1)
    assert 0 in stage.ownership.holdings.ready(), "asked to start again, it tries again"


@pytest.mark.parametrize("first", [False, True], ids=["at least once", "at most once"])
def test_what_an_executor_finds_gone_stops_its_partition_and_no_other(stage: Stage, first: bool) -> None:
    stage.ownership.agree(Terms(commit_first=first))
    planner = opened(stage, fails=True)
    stage.own(0, 1, 2)
    stage.ownership.requests.want_ends()
    stage.tick(1.0)
    planner.offer(BatchOffset("t"))
    stage.tick(1.0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    stage.kafka.expire("t", 0, 40)
    stage.kafka.expire("t", 2, 40)
    stage.ownership.query_lost(0, "offsets 0 to 39 are gone, the log begins at 40")
    assert 0 not in stage.ownership.holdings.held
    stage.tick(1.0)
    stage.tick(1.0)
    assert stage.ownership.holdings.ready().keys() == ({1, 2} if first else {1})
    assert stage.reported(
        "partition 0: offsets 0 to 39 are gone, the log begins at 40: stopped; reset its offsets, or set"
    )
    stage.kafka.append("t", 1, 5)
    found = None
    for _ in range(3):
        stage.tick(0.0 if found else 1.0)
        found = found or planner.offer(BatchOffset("t"))
        assert found is None or not first or stage.committed(1).offset == 105, "at most once: the commit comes first"
    assert found.batch == 1
    assert found.ranges[1].start == (100 if first else 0)


def test_a_position_behind_the_logs_end_is_believed_only_after_a_while(stage: Stage) -> None:
    stage.commit(0, 150, Token(1, 6, GENERATION))
    planner = opened(stage, fails=False)
    stage.node = replace(stage.node, epoch=4, start=StartRule.LATEST)
    stage.own(0)
    for _ in range(4):
        assert measured(stage, planner, BatchOffset("t"), 1.0) is None
    assert stage.committed(0).offset == 150
    for _ in range(3):
        measured(stage, planner, BatchOffset("t"), 1.0)
    stage.tick()
    assert stage.committed(0) == Committed(100, Token(5, 5, GENERATION), "a", "c", "id-1")
    assert stage.reported("its position 150 is behind the log's end 100")


def test_retention_that_catches_up_while_a_batch_is_read_is_said(stage: Stage) -> None:
    planner = opened(stage, fails=False)
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    stage.kafka.expire("t", 0, 30)
    stage.tick(11.0)
    measured(stage, planner, batch)
    stage.tick(11.0)
    assert stage.reported("partition 0: offsets 0 to 29 may have been gone before they were read")
    assert stage.committed(0).offset == 100
