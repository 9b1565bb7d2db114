"""What is committed, how often, and what follows when commits fail."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Token
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import Commit, Failed, OffsetFetch, perform
from spark_apps.agent.settings import Identity
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, OLD, TIMING, Stage, asked


def test_only_what_a_start_covers_is_committed_and_never_backwards(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.wait(0.5)
    assert stage.committed(0).offset == 0
    stage.cover()
    stage.wait(0.2)
    assert stage.committed(0).offset == 30
    stage.ownership.batches.cover(0)
    stage.wait(0.2)
    assert stage.committed(0).offset == 30


def test_a_batch_that_passes_while_a_commit_is_under_way_is_committed_afterwards(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(1.0)
    sent = asked(stage, Commit)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.ownership.requests.answer(perform(stage.offsets, "t", sent))
    assert stage.ownership.holdings.held[0].commits.acknowledged == 30
    stage.wait(1)
    assert stage.committed(0).offset == 50


def test_a_group_with_subscribed_members_is_named_and_nothing_is_read(stage: Stage) -> None:
    stage.kafka.members["g"] = ("intruder",)
    stage.own(0)
    stage.wait(2)
    assert not stage.ownership.holdings.ready()
    assert stage.reported("intruder")
    stage.kafka.members.clear()
    stage.wait(2)
    assert stage.ownership.holdings.ready()
    assert not stage.reported("intruder")


def test_what_cannot_be_committed_as_kafka_is_away_stops_as_well_and_says_so(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.kafka.down = True
    stage.cover()
    for _ in range(round(TIMING.give_up_s) + 10):
        stage.tick(1.0)
    assert stage.ownership.holdings.ready().keys() == {1}, "of what waits for no commit nothing is at stake"
    assert stage.reported("partition 0 stopped: its commits failed for 120 s")
    stage.kafka.down = False
    stage.wait(2)
    assert stage.committed(0).offset == 30
    assert stage.ownership.status().running.keys() == {1}


def test_who_holds_many_partitions_commits_less_often(stage: Stage) -> None:
    stage.own(0, 1)
    stage.ownership = TopicOwnership("t", Identity("a", "c", 5), stage.clock, replace(TIMING, commit_each_s=0.2))
    stage.ownership.grants.on_node(stage.node)
    stage.tick(1.0)
    stage.process(0, 10)
    assert stage.ownership.requests.next_at() == stage.clock.monotonic() + 2 * 0.2
    assert stage.committed(0).offset == 0
    stage.tick(2 * 0.2)
    assert stage.committed(0).offset == 10


@pytest.mark.parametrize("takes", [True, False], ids=["a newer owner writes again", "nobody does"])
def test_a_late_commit_stops_commits_and_reads_until_a_newer_owner_could_write(stage: Stage, takes: bool) -> None:
    """It processes up to 50, and sleeps while that commit is on its way; another takes the partition over meanwhile."""
    stage.own(0, 1)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = asked(stage, Commit)
    assert work.offsets[0].offset == 50
    stage.commit(0, 40, Token(2, 6, GENERATION))
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.process(0, 70)
    assert stage.ownership.batches.readable().keys() == {1}, "no commit of partition 1 was late, and it was looked at"
    stage.wait(TIMING.cool_down_s - 0.1)
    assert stage.committed(0).offset == 50
    assert 0 not in stage.ownership.batches.readable()
    if takes:
        stage.commit(0, 45, Token(2, 6, GENERATION))
    stage.wait(TIMING.look_s + 0.2)
    assert stage.committed(0).offset == (45 if takes else 70)
    assert stage.ownership.batches.readable().keys() == ({1} if takes else {0, 1})
    assert stage.reported("was taken by z") is takes


def test_what_keeps_commits_from_the_group_is_said_until_a_commit_has_passed(stage: Stage) -> None:
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1}))
    asked(stage, Commit)
    stage.ownership.requests.answer(Failed("somebody has subscribed", refused=True))
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(perform(stage.offsets, "t", asked(stage, OffsetFetch)))
    assert stage.reported("somebody has subscribed")
    stage.tick()
    assert not stage.reported("somebody has subscribed")


def test_who_committed_for_another_topic_id_is_named(stage: Stage) -> None:
    stage.commit(0, 5, OLD, topic_id="id-0", owner="z")
    stage.own(0)
    assert stage.reported("the commit of z for another topic id")


@pytest.mark.parametrize(("owner", "shown"), [("z", "z"), ("", "an unknown client")])
def test_who_has_written_over_an_entry_is_named(stage: Stage, owner: str, shown: str) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.own(0)
    stage.commit(0, 5, OLD, owner=owner)
    stage.tick(1.0)
    assert stage.reported(f"was overwritten by {shown}; it was")
