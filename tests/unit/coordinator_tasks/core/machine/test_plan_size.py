"""A plan moves at most the content of one transaction, and later plans the rest. The work of a plan grows with the consumers."""

from typing import Any

import pytest

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.codec import decode_node, encode_node, encode_state
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.machine.decision import Decision, TopicOutcome
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.world import Policy, World
from coordinator_tasks.core.model import FORMATS, PROPERTIES, SEEKS, TopicDescription
from tests.world.scene import TOPIC, Scene, stable

PLAIN = (SEEKS, PROPERTIES)
"""The forms that 0.2.0 reads."""


def scene(
    consumers: list[str], partitions: int, policy: Policy | None = None, formats: tuple[str, ...] = FORMATS
) -> Scene:
    found = Scene(partitions, policy=policy or Policy(), description=TopicDescription(TOPIC, "id-1", partitions))
    return found.joins(*consumers, formats=formats)


def ids(count: int, length: int) -> list[str]:
    return [f"{number:03d}".ljust(length, "x") for number in range(count)]


def complete(there: Scene, limit_bytes: int, most: int = 80) -> int:
    """Let everybody confirm whenever nothing else can be written, until all is done; the number of plans with moves."""
    plans = 0
    for _ in range(most):
        decision = there.decide()
        if decision.outcome is not TopicOutcome.WRITTEN:
            there.acts(*there.members)
            decision = there.decide()
        if decision.outcome is not TopicOutcome.WRITTEN:
            return plans
        assert size(decision) <= limit_bytes, (size(decision), decision.reason)
        plans += bool(decision.record and decision.record.moves)
        there.write(decision)
    raise AssertionError(f"not done after {most} writes")


def size(decision: Decision) -> int:
    node = encode_node(decision.node, decision.pack_over) if decision.node is not None else b""
    return len(node) + len(encode_state(decision.state)) + len(encode_record(decision.record))


@pytest.mark.parametrize(
    ("partitions", "consumers", "length", "plans", "formats"),
    [
        pytest.param(10_000, 10, 12, range(1, 2), PLAIN, id="10,000 partitions, short ids: one plan"),
        pytest.param(10_000, 3, 64, range(4, 50), PLAIN, id="10,000 partitions, the longest ids"),
        pytest.param(4_000, 300, 40, range(1, 2), PLAIN, id="many consumers"),
        pytest.param(10_000, 3, 64, range(1, 2), FORMATS, id="10,000 partitions, the longest ids, packed: one plan"),
    ],
)
def test_a_first_plan_fits_and_goes_on_until_everything_is_assigned(
    partitions: int, consumers: int, length: int, plans: range, formats: tuple[str, ...]
) -> None:
    there = scene(ids(consumers, length), partitions, formats=formats)
    assert complete(there, there.policy.max_write_bytes) in plans
    counts = there.counts().values()
    assert sum(counts) == partitions
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(("length", "plans"), [(12, range(1, 4)), (40, range(2, 9))], ids=["short ids", "long ids"])
def test_a_join_and_a_drain_fit_and_are_completed(length: int, plans: range) -> None:
    # A tenth of everything: 1,000 partitions and 90 KiB.
    there = scene(ids(3, length), 1_000, Policy(max_write_bytes=90 * 1024, pack_over_bytes=64 * 1024))
    complete(there, there.policy.max_write_bytes)
    joiner = "joiner".ljust(length, "y")
    there.joins(joiner)
    assert complete(there, there.policy.max_write_bytes) in plans
    assert sorted(there.counts().values()) == [250] * 4
    there.drains(joiner)
    complete(there, there.policy.max_write_bytes)
    assert sorted(there.counts().values()) == [333, 333, 334]


def test_without_room_nothing_more_moves_before_what_is_in_flight_is_confirmed() -> None:
    there = scene(["a"], 3, Policy(max_write_bytes=1))
    there.step()
    assert there.counts() == {"a": 1}
    assert there.decide().outcome is TopicOutcome.WAITING
    there.acts("a").step()
    assert there.step().state is not None
    assert there.counts() == {"a": 2}


def test_a_consumer_is_judged_a_few_times_however_many_partitions_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    there, judged, life = stable("a", "b", "c", partitions=1_000).joins("d"), list[str](), World.life

    def counted(world: World, consumer: str, incarnation: int) -> Life:
        judged.append(consumer)
        return life(world, consumer, incarnation)

    monkeypatch.setattr(World, "life", counted)
    decision = there.decide()
    assert len(decision.record.moves) == 250
    assert len(judged) < 200


def test_a_long_node_is_packed_without_its_plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    node = stable("a", "b", partitions=1_000).node
    plain = encode_node(node)

    def refuse(*_: Any) -> bytes:
        raise AssertionError("the plain form was written too")

    monkeypatch.setattr(codec, "dump", refuse)
    assert decode_node("p", encode_node(node, 4_096)) == decode_node("p", plain)
