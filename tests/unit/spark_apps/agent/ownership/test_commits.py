"""What is committed, how often, and what follows when commits fail."""

from dataclasses import replace

from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.settings import Identity
from tests.unit.spark_apps.agent.ownership.stage import TIMING, Stage


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
    stage.hand_out(0, 10)
    stage.cover()
    assert stage.ownership.requests.next_at() == stage.clock.monotonic() + 2 * 0.2
    assert stage.committed(0).offset == 0
    stage.tick(2 * 0.2)
    assert stage.committed(0).offset == 10
