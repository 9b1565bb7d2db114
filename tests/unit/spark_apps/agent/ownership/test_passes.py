"""A consumer's measurements: pauses of given and taken partitions, stalls of kept partitions."""

import pytest

from coordinator_tasks.core.model import Ago, Release, Stall, Taken
from spark_apps.agent.ownership.passes import TOLD_S, Passes
from spark_apps.agent.ownership.stalls import EPOCHS, WINDOW_S, Stalls
from tests.unit.spark_apps.agent.ownership.stage import OLD, Stage, give, list_offsets, release_of, take


def posted(stage: Stage, partition: int) -> Release:
    return stage.ownership.releasing.timed()[partition]


def taken(stage: Stage, partition: int) -> Taken | None:
    return stage.ownership.status().running[partition].taken


def test_only_the_last_epochs_have_a_stall() -> None:
    stalls = Stalls()
    for epoch in range(1, EPOCHS + 3):
        stalls.begin(epoch, 0.0, continues=False)
    assert list(stalls.told(lambda _: 1, 0.0)) == list(range(3, EPOCHS + 3))


def test_a_release_says_how_long_before_it_the_plan_was_read_and_the_last_record_passed(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.tick(1.0)
    stage.cover()
    stage.hand_out(0, 60)
    stage.tick(0.25)
    give(stage, 0)
    stage.tick(0.5)
    stage.cover()
    stage.clock.advance(0.125)
    assert posted(stage, 0).ago == Ago(0.625, 0.125, None, 0.75), "it has never seen the log's end"
    stage.clock.advance(1.0)
    assert posted(stage, 0).ago == Ago(1.625, 1.125, None, 0.75), "as of the write, which may come later"
    assert stage.ownership.releasing.outbox[0].ago is None


def test_a_release_says_when_nothing_was_left(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 100)
    stage.tick(1.0)
    list_offsets(stage)
    stage.tick(2.0)
    give(stage, 0)
    ago = posted(stage, 0).ago
    assert ago.passed_s == pytest.approx(3.05)
    assert ago.empty_s == pytest.approx(2.0, abs=1.0), "the last look at the log's end came later than the last record"
    assert (ago.empty_s or 0) < (ago.passed_s or 0)


def test_a_taker_says_how_it_has_taken_up_a_partition(stage: Stage) -> None:
    take(stage, 0)
    stage.commit(0, 40, OLD)
    stage.ownership.grants.on_releases({0: release_of(stage, 0, 40, OLD)})
    stage.tick()
    assert taken(stage, 0) is None, "nothing is known yet"
    stage.clock.advance(0.1)
    list_offsets(stage)
    stage.hand_out(0, 60)
    stage.clock.advance(0.25)
    assert taken(stage, 0) is None, "its first record has not passed"
    stage.cover()
    stage.clock.advance(2.0)
    found = taken(stage, 0)
    assert found.waited == 60, "all that was in the log, not the first batch alone"
    assert (found.ago_s, found.batch_s) == (2.0, 0.25)
    assert found.released_s == pytest.approx(0.4)
    stage.process(0, 100, 1.0)
    assert taken(stage, 0) == Taken(60, 3.0, 0.25, found.released_s), "later batches change nothing"
    stage.clock.advance(TOLD_S)
    assert taken(stage, 0) is None


def test_a_taker_that_finds_nothing_says_so_without_a_record(stage: Stage) -> None:
    take(stage, 0)
    stage.commit(0, 100, OLD)
    stage.ownership.grants.on_releases({0: release_of(stage, 0, 100, OLD)})
    stage.tick()
    list_offsets(stage)
    assert taken(stage, 0) == Taken(0)
    stage.kafka.append("t", 0, 5)
    list_offsets(stage)
    stage.process(0, 105)
    assert taken(stage, 0).waited == 0, "what came later has not waited for the taker"


def test_what_a_consumer_keeps_is_told_by_epoch_and_what_it_takes_or_gives_is_not(stage: Stage) -> None:
    stage.own(0, 1, 2)
    epoch = stage.node.epoch + 1
    for _ in range(2):
        stage.process(0, stage.ownership.holdings.held[0].position + 10, 0.5)
    give(stage, 1)
    assert stage.ownership.status().stalls[epoch] == Stall(0.0, 0, 2, 0.5)
    stage.hand_out(0, 40)
    stage.clock.advance(0.125)
    assert stage.ownership.status().stalls[epoch].longest_s == pytest.approx(0.125), "a batch that has not ended counts"
    stage.clock.advance(0.125)
    stage.cover()
    stage.read(assignments={0: "a", 2: "a", 3: "a"}, since={0: 1, 2: 1, 3: epoch + 1}, handoff={})
    for end in (10, 20):
        stage.process(3, end, 7.0)
    told = stage.ownership.status().stalls
    assert told[epoch] == Stall(0.25, 0, 2, 0.5)
    assert (told[epoch + 1].longest_s, told[epoch + 1].partitions) == (0.0, 2), (
        "partition 3 was taken in this rebalance"
    )


def test_a_window_ends_and_the_next_rebalance_begins_one_of_its_own() -> None:
    stalls = Stalls()
    stalls.begin(5, 0.0, continues=False)
    stalls.note(0.5, 0.5, 1, WINDOW_S + 1)
    assert stalls.told(lambda _: 3, 40.0)[5] == Stall(0.0, 0, 3, 0.0)
    stalls.begin(9, 41.0, continues=False)
    stalls.begin(10, 42.0, continues=True)
    stalls.note(0.75, 0.25, 2, 43.0)
    kept: dict[int, int] = {5: 3, 9: 4}
    assert stalls.told(kept.__getitem__, 50.0) == {
        5: Stall(0.0, 0, 3, 0.0),
        9: Stall(0.0, 0, 4, 0.5),
        10: Stall(0.25, 2, 4, 0.5),
    }
    assert stalls.read_at(6) == 41.0, "the first node that was read of this epoch or a later one"
    assert stalls.read_at(11) is None


def test_a_commit_says_when_its_records_had_passed_and_the_next_owner_repeats_it(stage: Stage) -> None:
    stage.own(0)
    for end in (30, 60):
        stage.process(0, end, 0.5)
    stage.hand_out(0, 90)
    stage.clock.advance(0.25)
    stage.tick()
    said = stage.committed(0).last_pass
    assert (said.epoch, said.usual_s) == (stage.node.epoch, 0.5)
    assert said.after_s == pytest.approx(1.0, abs=0.2), "the third batch has not passed"
    taker = Stage("b", 6, stage.kafka)
    taker.node = stage.node
    taker.read(assignments={0: "b"}, since={0: stage.node.epoch + 1})
    taker.wait(5.0)
    taker.process(0, 80)
    assert taken(taker, 0).last_pass == said


def test_a_consumer_that_ends_commits_how_long_nothing_was_left(stage: Stage) -> None:
    stage.own(0, 1)
    for partition in (0, 1):
        stage.process(partition, 100)
    stage.wait(600.0)
    list_offsets(stage)
    stage.kafka.append("t", 1, 5)
    stage.wait(20.0)
    before = stage.committed(0).last_pass
    assert before.after_s < 1.0
    list_offsets(stage)
    stage.ownership.grants.stop()
    stage.tick()
    assert stage.ownership.grants.idle
    quiet, behind = stage.committed(0).last_pass, stage.committed(1).last_pass
    assert quiet.after_s == pytest.approx(before.after_s + 620.0, abs=1.0)
    assert behind.after_s == pytest.approx(before.after_s + 600.0, abs=1.0), "five records wait since then"


def test_a_consumer_that_ends_without_kafka_waits_for_one_try_only(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 100)
    stage.wait(1.0)
    list_offsets(stage)
    before = stage.committed(0)
    stage.kafka.down = True
    stage.ownership.grants.stop()
    assert not stage.ownership.grants.idle
    stage.tick()
    assert stage.ownership.grants.idle
    stage.kafka.down = False
    assert stage.committed(0).last_pass == before.last_pass


def test_a_batch_that_will_not_pass_is_left_whatever_was_seen_before(stage: Stage) -> None:
    stage.own(0)
    stage.process(0, 50)
    stage.hand_out(0, 100)
    stage.wait(10.0)
    list_offsets(stage)
    stage.ownership.query_ended("its sink is broken")
    stage.tick()
    said = stage.committed(0).last_pass
    assert said.after_s < 1.0


def test_a_hang_is_not_usual(stage: Stage) -> None:
    stage.own(0)
    for end in (20, 40, 60, 80):
        stage.hand_out(0, end)
        stage.tick(0.5)
        stage.cover()
    stage.hand_out(0, 90)
    stage.tick(12.0)
    stage.cover()
    give(stage, 0)
    ago = posted(stage, 0).ago
    assert ago.usual_s == pytest.approx(0.5)


def test_batches_that_stay_longer_become_usual() -> None:
    passes = Passes()
    passes.passed(0.0)
    for at, usual_s in ((0.5, 0.5), (1.0, 0.5), (1.5, 0.5), (6.5, 0.5), (11.5, 0.5), (16.5, 0.5), (21.5, 5.0)):
        passes.hand_out(1, 99, at)
        passes.passed(at)
        assert passes.usual(at) == usual_s
