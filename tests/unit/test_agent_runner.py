"""The topic's runner wakes the agent for a release that is new, and lets it sleep while one has to wait."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Handoff, TopicNode
from spark_apps.agent.runner import TopicRunner
from spark_apps.agent.settings import Identity
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka

NODE = TopicNode("host:9092", "g", 1, "g1", "id-1", incarnations={"a": 1, "b": 1}, initial_partitions=2)


class Stage:
    """A runner whose worker has ended: the test does its work, and counts how often the agent is woken."""

    def __init__(self) -> None:
        kafka = FakeKafka()
        kafka.create_topic("t", 2)
        self.offsets = kafka.offsets("g")
        self.woken = 0
        self.runner = TopicRunner("t", NODE, Identity("a", "c", 1), FakeClock(), lambda _: self.offsets, self._wake)
        self.runner.close()

    def _wake(self) -> None:
        self.woken += 1

    def see(self, node: TopicNode) -> None:
        self.runner.edit(lambda holder: holder.on_node(node))
        self.runner.edit(lambda holder: holder.tick(self.offsets))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def give_everything(stage: Stage) -> None:
    stage.see(replace(NODE, epoch=2, assignments={0: "a", 1: "a"}, since={0: 2, 1: 2}))
    assert stage.woken == 0
    stage.see(replace(NODE, epoch=3, handoff={0: Handoff("a", "b", 3), 1: Handoff("a", "b", 3)}))
    assert set(stage.runner.holder.outbox) == {0, 1}


def test_a_posted_release_wakes_the_agent(stage: Stage) -> None:
    give_everything(stage)
    assert stage.woken > 0


def test_a_release_that_has_to_wait_keeps_nobody_awake(stage: Stage) -> None:
    # While ZooKeeper is gone, every look of the agent at its topics would wake it for the next one.
    give_everything(stage)
    woken = stage.woken
    for _ in range(3):
        stage.runner.status()
    stage.runner.edit(lambda holder: holder.released(0, 3))
    assert stage.woken == woken
