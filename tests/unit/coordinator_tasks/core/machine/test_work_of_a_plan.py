"""The work of a plan grows with the consumers, and for a partition it is a few look-ups."""

from typing import Any

import pytest

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.codec import decode_node, encode_node
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.model import TopicDescription
from tests.world.scene import TOPIC, Scene


def stable(partitions: int, *consumers: str) -> Scene:
    found = Scene(partitions, description=TopicDescription(TOPIC, "id-1", partitions)).joins(*consumers)
    while (decision := found.decide()).outcome is TopicOutcome.WRITTEN:
        found.write(decision)
        found.acts(*consumers)
    return found


def test_a_consumer_is_judged_a_few_times_however_many_partitions_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    there, judged, life = stable(1_000, "a", "b", "c").joins("d"), list[str](), World.life

    def counted(world: World, consumer: str, incarnation: int) -> Life:
        judged.append(consumer)
        return life(world, consumer, incarnation)

    monkeypatch.setattr(World, "life", counted)
    decision = there.decide()
    assert decision.record is not None
    assert len(decision.record.moves) == 250
    assert len(judged) < 200


def test_a_long_node_is_packed_without_its_plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    node = stable(1_000, "a", "b").node
    assert node is not None
    plain = encode_node(node)

    def refuse(*_: Any) -> bytes:
        raise AssertionError("the plain form was written too")

    monkeypatch.setattr(codec, "dump", refuse)
    assert decode_node("p", encode_node(node, 4_096)) == decode_node("p", plain)
