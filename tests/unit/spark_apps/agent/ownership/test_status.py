"""A consumer's report of a topic: started partitions, stalled partitions, consumers involved."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import StateSize, Token
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import Failed, ListOffsets, perform
from spark_apps.agent.reports import MAX_REPORTS, Reports
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, OLD, TIMING, Stage, asked, give, list_offsets


def test_a_partition_read_to_its_target_is_not_stalled(stage: Stage) -> None:
    stage.ownership.batches.until_goal = True
    stage.own(0)
    list_offsets(stage)
    stage.clock.advance(500)
    assert stage.ownership.batches.stalled(300) == (0,)
    stage.process(0, 100)
    stage.kafka.append("t", 0, 1)
    list_offsets(stage)
    stage.clock.advance(500)
    assert stage.ownership.batches.stalled(300) == ()


def test_the_status_has_the_state_that_the_sink_has_told(stage: Stage) -> None:
    stage.own(0, 1)
    stage.ownership.keeps({0: StateSize(3, 120, 5_500), 7: StateSize(1, 8)})
    assert {p: one.state for p, one in stage.ownership.status().running.items()} == {
        0: StateSize(3, 120, 5_500),
        1: None,
    }


def test_nobody_at_the_logs_end_is_stalled_however_long_that_was(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 100)
    list_offsets(stage)
    stage.clock.advance(500)
    assert stage.ownership.batches.stalled(300) == ()
    list_offsets(stage)
    stage.kafka.append("t", 0, 1)
    list_offsets(stage)
    assert stage.ownership.batches.stalled(300) == ()


def test_started_is_what_a_batch_has_shown_or_what_is_at_the_logs_end(stage: Stage) -> None:
    stage.commit(1, 100, OLD)
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, 1)
    assert {p: one.started for p, one in stage.ownership.status().running.items()} == {0: False, 1: True}
    stage.hand_out(0, 50)
    assert stage.ownership.status().running[0].started


def test_who_is_named_by_the_accepted_node_is_involved_until_it_is_isolated(stage: Stage) -> None:
    assert (stage.ownership.grants.involved, stage.ownership.writer.topic_id) == (False, "")
    stage.ownership = TopicOwnership("t", stage.ownership.identity, stage.clock, TIMING, acquiring=False)
    stage.own(0)
    assert (stage.running, stage.ownership.grants.idle, stage.ownership.grants.involved) == ({}, True, True)
    assert stage.ownership.writer.topic_id == "id-1"
    stage.ownership.grants.on_isolated(isolated=True)
    assert not stage.ownership.grants.involved


def test_of_a_partition_that_was_given_away_nothing_is_reported_as_present(stage: Stage) -> None:
    stage.own(0, 1)
    stage.ownership.requests.cannot_read({0: "not authorised"})
    stage.kafka.leaderless.add(0)
    list_offsets(stage)
    assert stage.reported("partition 0 cannot be read")
    assert stage.reported("partition 0: no broker says")
    give(stage, 0)
    assert not stage.ownership.reports.all()
    stage.ownership.requests.cannot_read({0: "not authorised"})
    assert not stage.ownership.reports.all()


def test_an_answer_about_a_partition_that_was_given_away_meanwhile_reports_nothing(stage: Stage) -> None:
    stage.own(0, 1)
    stage.kafka.leaderless.add(0)
    stage.clock.advance(TIMING.measure_s)
    stage.ownership.requests.want_ends()
    work = asked(stage, ListOffsets)
    give(stage, 0)
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    assert not stage.ownership.reports.all()


def test_why_a_partition_stopped_is_reported_until_it_is_taken_up_again(stage: Stage) -> None:
    stage.own(0)
    list_offsets(stage)
    stage.ownership.requests.lose(0, "its records are gone")
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.reported("its records are gone: stopped; reset its offsets")
    stage.own(0)
    assert not stage.ownership.reports.all()


def test_as_many_reports_are_kept_as_there_is_room_for() -> None:
    reports = Reports()
    for matter in range(MAX_REPORTS + 1):
        assert len(reports.all()) == matter
        reports.add(matter, str(matter))
    assert reports.all() == tuple(str(matter) for matter in range(1, MAX_REPORTS + 1))


def recreated(stage: Stage) -> None:
    stage.kafka.create_topic("t", 4)
    stage.wait(1.0)


def taken(stage: Stage) -> None:
    stage.commit(0, 40, Token(90, 6, GENERATION))
    stage.wait(1.0)


def refused(stage: Stage) -> None:
    stage.ownership.requests.cannot_read({0: "no rights"})


def kafka_is_down(stage: Stage) -> None:
    stage.clock.advance(1.0)
    assert stage.ownership.requests.work() is not None
    stage.ownership.requests.answer(Failed("no broker answers"))


@pytest.mark.parametrize("end", [{"assignments": {0: "b"}}, {"assignments": {}}, {"removed": True}], ids=str)
@pytest.mark.parametrize("trouble", [recreated, taken, refused, kafka_is_down])
def test_reports_end_with_the_grant(trouble: Callable[[Stage], None], end: dict[str, object], stage: Stage) -> None:
    stage.own(0)
    trouble(stage)
    assert stage.ownership.reports.all()
    stage.read(**{"assignments": {}, "since": {0: stage.node.epoch + 1} if end.get("assignments") else {}, **end})
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.ownership.reports.all() == ()


def test_a_partition_shows_its_position_and_how_far_behind_it_is(stage: Stage) -> None:
    stage.own(0)
    list_offsets(stage)
    stage.process(0, 40, 2.0)
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
