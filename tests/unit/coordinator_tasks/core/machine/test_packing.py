"""A topic's node is packed only if all acting consumers read the packed form, for any sequence of releases."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import FORMATS, PROPERTIES, SEEKS
from tests.world.scene import ACTOR, Scene, stable

OLDER = (SEEKS, PROPERTIES)
"""The forms that 0.2.0 reads."""
SMALL = Policy(pack_over_bytes=0)


def older(there: Scene, consumer: str) -> Scene:
    there.members[consumer] = replace(there.members[consumer], formats=OLDER)
    return there


def written(there: Scene) -> bool:
    """Whether the next plan packs the node."""
    decision = there.decide()
    assert decision.outcome is TopicOutcome.WRITTEN
    there.write(decision)
    return there.packed


def test_a_node_that_all_can_read_is_packed_if_it_is_long_enough() -> None:
    assert written(stable("a", "b", policy=SMALL).joins("c"))
    assert not written(stable("a", "b").joins("c"))


def test_an_older_consumer_that_registers_gets_a_plain_node_and_its_partitions() -> None:
    there = stable("a", "b", policy=SMALL)
    assert there.packed
    there.joins("c", formats=OLDER)
    assert not written(there)
    there.settles()
    assert not there.packed
    assert sorted(there.counts().values()) == [1, 1, 2]
    assert "c" in there.counts()


def test_when_the_last_older_consumer_is_gone_the_next_write_is_packed() -> None:
    there = older(stable("a", "b", "c", policy=SMALL), "c")
    there.packed = False
    there.joins("d")
    assert not written(there.settles().joins("e"))
    there.settles().dies("c")
    assert written(there)


@pytest.mark.parametrize("packed", [True, False])
def test_an_unregistered_owner_reads_the_form_of_its_node(packed: bool) -> None:
    there = stable("a", "b", "c", policy=SMALL)
    assert there.packed
    there.packed = packed
    assert written(there.vanishes("c", answers=True).joins("d")) is packed


def test_an_owner_that_no_longer_wants_the_topic_is_asked_for_its_form_too() -> None:
    there = older(stable("a", "b", policy=SMALL), "b")
    there.packed = False
    there.members["b"] = replace(there.members["b"], topics=("other",))
    assert not written(there.joins("c"))


def test_a_registration_does_not_answer_for_an_earlier_incarnation() -> None:
    """The owner of a plain node came back as a later incarnation, which reads the packed form."""
    there = stable("a", "b", policy=SMALL)
    there.packed = False
    there.joins("b", incarnation=2).joins("c")
    assert not written(there)


def test_who_stands_in_a_restored_packed_node_is_not_who_is_found_to_run_something() -> None:
    """A restored packed node does not name `c`; `c` owns partitions by a later, plain node."""
    there = stable("a", "b", policy=SMALL)
    node, state = there.node, there.state
    assert there.packed
    there.joins("c", formats=OLDER).settles()
    there.node, there.state, there.packed = node, state, True
    there.vanishes("c", answers=True)
    assert not written(there)
    assert "c" in there.node.incarnations


@pytest.mark.parametrize("formats", [OLDER, FORMATS], ids=["an older one gets nothing", "a newer one gets its part"])
def test_a_node_that_only_fits_packed_stays_packed(formats: tuple[str, ...]) -> None:
    there = stable("a", "b", partitions=50, policy=SMALL)
    there.policy = replace(SMALL, max_write_bytes=50 * 27 - 1)
    there.joins("c", formats=formats).joins("d")
    there.settles(40)
    assert there.packed
    assert "d" in there.counts()
    assert ("c" in there.counts()) == (formats == FORMATS)


@pytest.mark.parametrize(
    "isolated", ["ab", "b"], ids=["nobody else is there: no plan", "beside an owner: the same plan"]
)
def test_a_node_is_plain_again_for_an_older_consumer_that_is_readmitted(isolated: str) -> None:
    """Otherwise the consumer could never confirm an empty set of partitions."""
    there = stable("a", "b", policy=SMALL)
    for consumer in isolated:
        there.is_isolated(consumer)
    there.settles()
    assert there.packed
    there.joins("c", formats=OLDER).is_isolated("c", readmit=True)
    assert not written(there)
    once = there.decide().outcome
    assert once is TopicOutcome.HELD if isolated == "ab" else once is not TopicOutcome.WRITTEN, "once is enough"


def test_a_node_is_plain_again_for_an_older_consumer_also_while_a_plan_waits_for_a_person() -> None:
    there = stable("a", "b", policy=SMALL)
    there.joins("d")
    there.joins("c", formats=OLDER).is_isolated("c", readmit=True)
    assert decide(there.view(), there.world(), there.policy, ACTOR).outcome is TopicOutcome.WRITTEN
    found = decide(there.view(), there.world(), there.policy, ACTOR, plans=False)
    assert found.reason == "read in the plain form only: c"


def test_a_node_that_does_not_fit_plain_is_not_written_again_for_an_older_consumer() -> None:
    there = stable("a", "b", partitions=50, policy=SMALL)
    there.policy = replace(SMALL, max_write_bytes=50 * 26 - 1)
    for consumer in "ab":
        there.is_isolated(consumer)
    there.settles(40)
    there.joins("c", formats=OLDER).is_isolated("c", readmit=True)
    assert there.decide().outcome is not TopicOutcome.WRITTEN
