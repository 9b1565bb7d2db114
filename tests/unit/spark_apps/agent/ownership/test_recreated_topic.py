"""A topic that was deleted and created again under the same name."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Token, TopicDescription
from spark_apps.agent.ownership.work import FetchedOffsets, OffsetFetch, perform
from tests.fakes.kafka import FakeGroupOffsets
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, give, release_of, take


def test_a_topic_that_was_recreated_is_noticed_although_a_commit_reached_the_new_one_first(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.kafka.create_topic("t", 4)
    stage.wait(0.1)
    stage.cover()
    assert stage.committed(0).topic_id == "id-1", "on a fresh look: nobody acts on it, since it names its topic id"
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.reported("recreated in Kafka (topic id id-2, held is id-1)")


def test_a_release_from_before_the_topic_was_recreated_starts_nothing_in_the_new_one(stage: Stage) -> None:
    take(stage, 0)
    stage.ownership.grants.on_releases({0: release_of(stage, 0, 40, Token(0, 6, GENERATION))})
    stage.kafka.create_topic("t", 4)
    stage.kafka.append("t", 0, 100)
    stage.node = replace(stage.node, topic_id="id-2")
    stage.offsets = stage.kafka.offsets("h")
    stage.own(0)
    stage.wait(1.0)
    assert stage.ownership.holdings.ready()[0].position == 0
    assert stage.committed(0).offset == 0


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed first", "learned from the node"])
def test_a_topic_recreated_and_managed_again_is_run_also_under_the_old_holding(stage: Stage, noticed: bool) -> None:
    stage.own(0, epoch=1)
    stage.kafka.create_topic("t", 4)
    if noticed:
        stage.wait(1.0)
        assert stage.reported("partition 0 stopped: its topic was recreated")
    stage.node = replace(stage.node, topic_id="id-2", group_id="h", generation="g2", supersedes={GENERATION: 9})
    stage.offsets = stage.kafka.offsets("h")
    stage.own(0, epoch=1)
    stage.wait(2.0)
    assert stage.running == {0: False}
    assert stage.committed(0).topic_id == "id-2"
    assert not stage.ownership.reports.all()


def test_a_topic_recreated_during_a_look_shows_its_new_id(stage: Stage) -> None:
    stage.own(0)

    class Anew(FakeGroupOffsets):
        """The topic is recreated between the two requests of a fetch."""

        def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
            found = super().committed(topic, partitions)
            stage.kafka.create_topic(topic, 4)
            return found

        def describe(self, topic: str) -> TopicDescription | None:
            found = super().describe(topic)
            stage.kafka.create_topic(topic, 4)
            return found

    fetched = perform(Anew(stage.kafka, "g"), "t", OffsetFetch((0,), 1, "id-1", {}, asks_id=True))
    assert isinstance(fetched, FetchedOffsets)
    assert fetched.entries[0].topic_id == "id-1"
    assert fetched.topic_id == "id-2"


def test_what_ran_in_the_former_topic_is_not_released_as_a_position_of_the_new_topic(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.kafka.create_topic("t", 4)
    stage.kafka.append("t", 0, 100)
    stage.node = replace(stage.node, topic_id="id-2", group_id="h")
    stage.offsets = stage.kafka.offsets("h")
    give(stage, 0)
    stage.cover()
    stage.wait(1.0)
    release = stage.ownership.releasing.outbox[0]
    assert (release.offset, release.token.epoch) == (0, 0)
