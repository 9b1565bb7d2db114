"""A plan moves at most what fits in one transaction; the rest comes in the next ones."""

import pytest

from coordinator_tasks.core.codecs.codec import encode_node, encode_state
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.machine.decision import Decision, Verdict
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import FORMATS, PROPERTIES, SEEKS, TopicDescription
from tests.world.scene import TOPIC, Scene

PLAIN = (SEEKS, PROPERTIES)
"""What 0.2.0 reads."""


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
        if decision.verdict is not Verdict.WRITE:
            there.acts(*there.members)
            decision = there.decide()
        if decision.verdict is not Verdict.WRITE:
            return plans
        assert size(decision) <= limit_bytes, (size(decision), decision.reason)
        plans += bool(decision.record and decision.record.moves)
        there.write(decision)
    raise AssertionError(f"not done after {most} writes")


def size(decision: Decision) -> int:
    assert decision.state is not None
    assert decision.record is not None
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


def test_a_packed_node_holds_more_partitions_than_fit_into_a_plain_one() -> None:
    # A tenth of everything: 5,000 partitions, 90 KiB, and a node is packed beyond 6.
    policy = Policy(max_write_bytes=90 * 1024, pack_over_bytes=6 * 1024)
    there = scene(ids(10, 40), 5_000, policy)
    assert complete(there, policy.max_write_bytes) <= 6
    assert there.node is not None
    assert len(encode_node(there.node)) > 3 * policy.max_write_bytes
    there.joins("joiner".ljust(40, "y"))
    assert complete(there, policy.max_write_bytes) <= 3
    assert sorted(there.counts().values()) == [454] * 5 + [455] * 6


@pytest.mark.parametrize(("length", "plans"), [(12, range(1, 4)), (40, range(2, 9))], ids=["short ids", "long ids"])
def test_a_join_and_a_drain_fit_and_are_completed(length: int, plans: range) -> None:
    # A tenth of everything: 1,000 partitions and 90 KiB.
    there = scene(ids(3, length), 1_000, Policy(max_write_bytes=90 * 1024))
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
    assert there.decide().verdict is Verdict.WAIT
    there.acts("a").step()
    assert there.step().state is not None
    assert there.counts() == {"a": 2}


def test_a_plan_that_does_not_fit_goes_on_until_it_is_done() -> None:
    there = scene(["a", "b"], 12, Policy(max_write_bytes=12 * 27 + 3 * 67 + 3 * 82))
    there.settles(40)
    there.joins("c")
    decision = there.step()
    assert decision.state is not None
    assert there.node is not None
    assert 1 <= len(there.node.handoff) < 4
    assert decision.state.planned == ""
    there.settles(40)
    assert there.counts() == {"a": 4, "b": 4, "c": 4}
