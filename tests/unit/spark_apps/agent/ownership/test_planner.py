"""The next batch: pace, size and ranges."""

from collections.abc import Callable, Iterator

from coordinator_tasks.core.model import Handoff, Token
from spark_apps.agent.ownership.planner import ENDS_WAIT_S, BatchPlanner
from spark_apps.agent.settings import Pacing, Terms
from spark_apps.records.batches import SMALL_RECORDS, BatchOffset, Range
from spark_apps.records.options import parse_options
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, OLD, TIMING, Stage, planner_of, release_of


def under_way(stage: Stage, planner: BatchPlanner) -> BatchOffset:
    """A batch has taken 100 records of partition 0. The agent knows of 5 more, and 7 came since."""
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    stage.kafka.append("t", 0, 5)
    stage.ownership.requests.want_ends()
    stage.tick(0.1)
    stage.kafka.append("t", 0, 7)
    stage.clock.advance(0.1)
    return batch


def test_when_a_batch_has_passed_the_next_one_goes_to_the_end_of_the_log_as_it_is_then(stage: Stage) -> None:
    planner = planner_of(stage)
    first = under_way(stage, planner)
    assert planner.offer(first) is None
    assert planner.next_at == stage.clock.monotonic() + ENDS_WAIT_S
    stage.tick()
    assert planner.offer(first).ranges[0].end == 112


def test_if_kafka_does_not_tell_the_end_soon_a_batch_takes_what_is_known(stage: Stage) -> None:
    planner = planner_of(stage)
    first = under_way(stage, planner)
    assert planner.offer(first) is None
    stage.clock.advance(ENDS_WAIT_S)
    assert planner.offer(first).ranges[0].end == 105


def test_a_batch_waits_for_no_end_that_may_not_be_asked_for_in_time(stage: Stage) -> None:
    planner = planner_of(stage)
    first = under_way(stage, planner)
    stage.ownership.requests._schedule._ends_listed_at = stage.clock.monotonic() + ENDS_WAIT_S
    assert planner.offer(first) is not None


def test_a_batch_is_paced_but_a_started_partition_goes_at_once(stage: Stage) -> None:
    planner = planner_of(stage, batch_interval_s=0.2)
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    stage.kafka.append("t", 0, 5)
    stage.tick(0.1)
    planner.offer(first)
    stage.tick()
    assert planner.offer(first) is None
    stage.own(0, 1, epoch=1)
    second = planner.offer(first)
    assert 1 in second.ranges
    assert planner.offer(first) == second, "the same start gives the same batch until it has passed"


def test_a_batch_is_bounded_in_proportion_to_what_waits(stage: Stage) -> None:
    stage.own(0, 1)
    batch = planner_of(stage, max_offsets=50).offer(BatchOffset("t"))
    assert {p: one.size for p, one in batch.ranges.items()} == {0: 25, 1: 25}


def sizes_of(stage: Stage, planner: BatchPlanner, seconds: Callable[[int], float]) -> Iterator[dict[int, int]]:
    """What the batches read of each partition, where there is always more; one of n records takes `seconds` of n."""
    offset = BatchOffset("t")
    while True:
        for partition in range(4):
            stage.kafka.append("t", partition, 1_000_000)
        planner.ownership.requests.want_ends()
        stage.tick(0.1)
        batch = planner.offer(offset)
        assert batch is not None
        sizes = {p: one.size for p, one in batch.ranges.items()}
        yield sizes
        stage.tick(seconds(sum(sizes.values())))
        offset = batch


def test_a_backlog_keeps_no_partition_waiting_that_comes_to_us(stage: Stage) -> None:
    stage.own(0)
    batches = sizes_of(stage, planner_of(stage, batch_interval_s=0.0), lambda _: 10.0)
    assert next(batches) == {0: SMALL_RECORDS}, "the first batch with a partition is a small one"
    assert next(batches)[0] > 1_000_000
    before = next(batches)[0]
    stage.read(handoff={1: Handoff("b", "a", stage.node.epoch + 1)})
    awaiting = next(batches)
    assert awaiting == {0: int(before / 10.1 * 0.3)}
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 0, Token(0, 6, GENERATION))})
    with_it = next(batches)
    assert with_it.keys() == {0, 1}
    assert sum(with_it.values()) < SMALL_RECORDS + 2
    assert next(batches)[1] > 1_000_000, "the newcomer is one of them now"


def test_a_partition_is_expected_from_its_grant_until_it_is_ready(stage: Stage) -> None:
    stage.own(0)
    assert not stage.ownership.holdings.expecting
    stage.own(0, 1, guarded=frozenset({1}))
    assert stage.ownership.holdings.expecting
    stage.wait(TIMING.guard_s + 0.5)
    assert not stage.ownership.holdings.expecting


def test_a_giver_that_hangs_slows_nobody_down_for_good(stage: Stage) -> None:
    stage.own(0)
    stage.read(handoff={1: Handoff("b", "a", stage.node.epoch + 1)})
    batches = sizes_of(stage, planner_of(stage, batch_interval_s=0.0), lambda _: 1.0)
    bounded = [next(batches)[0] for _ in range(9)]
    assert max(bounded) == SMALL_RECORDS
    assert next(batches)[0] == SMALL_RECORDS
    assert next(batches)[0] > 1_000_000


def configured(stage: Stage, **options: str) -> BatchPlanner:
    planner = planner_of(stage)
    planner.configure(parse_options({"subscribe": "t", **options}))
    return planner


def test_a_batch_waits_for_enough_records_or_for_its_time_and_is_not_stalled_meanwhile(stage: Stage) -> None:
    planner = configured(stage, minOffsetsPerTrigger="50", maxTriggerDelay="10m")
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    assert first is not None, "what was just started waits for nothing"
    stage.kafka.append("t", 0, 49)
    stage.tick(1.0)
    for _ in range(6):
        assert planner.offer(first) is None
        stage.tick(60.0)
        planner.offer(first)
        assert stage.ownership.batches.stalled(300) == ()
    stage.kafka.append("t", 0, 1)
    planner.offer(first)
    stage.tick(1.0)
    second = planner.offer(first)
    assert second.ranges[0].size == 50
    stage.kafka.append("t", 0, 1)
    planner.offer(second)
    stage.tick(599.0)
    assert planner.offer(second) is None
    stage.tick(2.0)
    assert planner.offer(second) is not None, "its time is over"


def test_until_now_is_what_was_there_when_each_partition_was_taken_up(stage: Stage) -> None:
    planner = planner_of(stage)
    stage.ownership.batches.until_goal = True
    assert not stage.ownership.batches.caught_up, "nothing has been given to it yet"
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    stage.kafka.append("t", 0, 50)
    stage.tick(1.0)
    assert not stage.ownership.batches.caught_up
    planner.offer(first)
    stage.tick(1.0)
    assert planner.offer(first) is None, "what came later is another's"
    assert stage.ownership.batches.caught_up
    stage.own(0, 1, epoch=1)
    assert not stage.ownership.batches.caught_up, "it was given one more"
    second = planner.offer(first)
    assert {p: one.end for p, one in second.ranges.items()} == {1: 100}
    planner.offer(second)
    assert stage.ownership.batches.caught_up


def test_progress_reaches_from_what_has_passed_to_the_logs_end(stage: Stage) -> None:
    planner = planner_of(stage)
    assert planner.report() is None
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    reported = planner.report()
    assert reported.ranges == {0: Range(0, 0, 100, 0)}
    planner.offer(batch)
    assert planner.report().ranges[0].size == 0


def test_paused_partitions_are_held_and_count_as_started_but_are_not_read(stage: Stage) -> None:
    stage.read(assignments={0: "a"}, since={0: 1}, paused=frozenset({0}))
    assert planner_of(stage).offer(BatchOffset("t")) is None
    assert stage.ownership.status().running[0].started


def test_what_has_no_lag_is_in_no_batch_and_progress_carries_the_last_batchs_number(stage: Stage) -> None:
    planner = BatchPlanner(stage.ownership, stage.clock, Pacing(batch_interval_s=0.0))
    stage.commit(1, 100, OLD)
    stage.own(0, 1)
    before = planner.report()
    batch = planner.offer(BatchOffset("t"))
    after = planner.report()
    assert (before.batch, batch.ranges.keys(), after.batch) == (0, {0}, 1)


def test_an_idle_partition_gets_an_empty_range_once_in_each_idle_time(stage: Stage) -> None:
    planner = planner_of(stage, batch_interval_s=0.0)
    stage.ownership.agree(Terms(idle_s=30.0))
    stage.own(0, 1)
    first = planner.offer(BatchOffset("t"))
    last, batches = first, list[tuple[int, dict[int, int]]]()
    for second in range(1, 65):
        if second == 40:
            stage.kafka.append("t", 1, 5)
        stage.tick(1.0)
        batch = planner.offer(last)
        if batch is not None:
            last = batch
            batches.append((second, {one.partition: one.size for one in batch.ranges.values()}))
    assert batches == [(30, {0: 0, 1: 0}), (40, {1: 5}), (60, {0: 0})]


def test_an_idle_partition_does_not_pull_waiting_records_into_a_batch(stage: Stage) -> None:
    planner = planner_of(stage, batch_interval_s=0.0, min_offsets=50, max_delay_s=50.0)
    stage.ownership.agree(Terms(idle_s=30.0))
    stage.own(0, 1)
    first = planner.offer(BatchOffset("t"))
    planner.offer(first)
    stage.kafka.append("t", 1, 5)
    stage.wait(31.0)
    idle = planner.offer(first)
    assert [(one.partition, one.size) for one in idle.ranges.values()] == [(0, 0)]
    assert planner.offer(idle) is None
    stage.wait(20.0)
    late = planner.offer(idle)
    assert late is not None, "an empty range does not put off the longest delay"
    assert [(one.partition, one.size) for one in late.ranges.values()] == [(1, 5)]
