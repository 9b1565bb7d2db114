"""A history has to settle without permanently dead or isolated consumers; a plan that counts on them is noticed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator_tasks.core.machine import deciding, presence
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.machine.world import World as Seen
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe
from coordinator_tasks.service.plan import transitions
from tests.simulation.actions import Action
from tests.simulation.faults import Fault, Lasting
from tests.simulation.history import run
from tests.simulation.totals import Outcome
from tests.simulation.world import Setup

SETTLED = [Action("calm", 1, 0)] * 4
BOTH = pytest.mark.parametrize(("returns", "rule"), [(0, "settles"), (None, "")], ids=["c stays so", "c comes back"])


def _after(fault: Fault, a: int, returns: int | None) -> Outcome:
    """Let `c`, one of three owners of a partition each, meet this fault, and end the faults."""
    return run(Setup(returns=returns), [*SETTLED, Action(fault.name, a, 2)])


def _spare_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the platform isolate no consumer until another process has the id."""
    overdue = observe._overdue

    def spared(c: Coordinator, world: Seen, holders: Mapping[str, frozenset[int]]) -> list[tuple[str, int]]:
        return [one for one in overdue(c, world, holders) if one[0] in world.members]

    monkeypatch.setattr(observe, "_overdue", spared)


@pytest.mark.parametrize(
    ("fault", "a", "lasting"),
    [(Fault.HOST_LOST, 2, Lasting.HOST_LOST), (Fault.CRASHED, 2, Lasting.DEAD), (Fault.ISOLATED, 1, Lasting.ISOLATED)],
    ids=str,
)
def test_the_others_own_everything_in_the_end(fault: Fault, a: int, lasting: Lasting) -> None:
    outcome = _after(fault, a, 0)
    assert outcome.broken == ""
    assert [kind for kind, _ in outcome.lasting.elements()] == [lasting]


def test_the_one_that_comes_back_for_certain_is_launched_and_readmitted() -> None:
    assert not _after(Fault.HOST_LOST, 2, 2).lasting
    outcome = _after(Fault.ISOLATED, 1, 2)
    assert (outcome.broken, outcome.lasting.total()) == ("", 0)


@BOTH
def test_a_platform_that_leaves_a_dead_one_alone_is_noticed(
    monkeypatch: pytest.MonkeyPatch, returns: int | None, rule: str
) -> None:
    _spare_the_dead(monkeypatch)
    assert _after(Fault.HOST_LOST, 2, returns).rule == rule


@BOTH
def test_a_plan_that_gives_something_to_an_isolated_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch, returns: int | None, rule: str
) -> None:
    targets = presence.targets

    def everybody(topic: str, held: dict[str, int], world: Seen, policy: Policy) -> dict[str, int]:
        return targets(topic, held, replace(world, directives={}), policy)

    monkeypatch.setattr(deciding, "targets", everybody)
    assert _after(Fault.ISOLATED, 1, returns).rule == rule


@pytest.mark.parametrize("together", [True, False], ids=["planned as one", "each by itself"])
def test_topics_that_are_not_planned_as_one_are_noticed(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    if not together:
        monkeypatch.setattr(
            transitions, "_together", lambda _c, snapshot, views, *_rest, **_more: dict.fromkeys(views, snapshot)
        )
    outcome = run(Setup(partitions=1, topics=("orders", "audit", "bills")), [])
    assert outcome.broken == "" if together else "all topics together are not balanced" in outcome.broken
