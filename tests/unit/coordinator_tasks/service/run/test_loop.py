"""What the plain loop looks at, and how long it waits between two looks."""

import threading
from collections.abc import Collection
from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Move, MoveKind, State
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import loop
from coordinator_tasks.service.run.loop import BUSY_S, HANDOFF_S, QUIET_S, _pause_s
from tests.world.site import Site


def report(outcome: TopicOutcome, *kinds: MoveKind) -> TopicReport:
    moves = tuple(Move(n, "a", "b", kind) for n, kind in enumerate(kinds))
    return TopicReport("t", State.STABLE, State.CLOSING, outcome, "", moves)


@pytest.mark.parametrize(
    ("reports", "pause_s"),
    [
        ([], QUIET_S),
        ([report(TopicOutcome.UNCHANGED)], QUIET_S),
        ([report(TopicOutcome.WRITTEN, MoveKind.HANDOFF, MoveKind.START)], HANDOFF_S),
        ([report(TopicOutcome.WRITTEN, MoveKind.HANDOFF), report(TopicOutcome.UNCHANGED)], HANDOFF_S),
        ([report(TopicOutcome.WRITTEN, MoveKind.HANDOFF, MoveKind.BARRIER)], BUSY_S),
        ([report(TopicOutcome.WRITTEN, MoveKind.HANDOFF), report(TopicOutcome.WAITING)], BUSY_S),
        ([report(TopicOutcome.WRITTEN)], BUSY_S),
        ([report(TopicOutcome.OVERTAKEN, MoveKind.HANDOFF)], BUSY_S),
    ],
    ids=[
        *("nothing is managed", "nothing is due", "a plan of hand-offs", "a plan, and a topic that is at rest"),
        *("a barrier waits for us", "another topic waits", "the end of a rebalance", "a plan that was not written"),
    ],
)
def test_the_loop_looks_later_at_what_consumers_do_among_themselves(reports: list[TopicReport], pause_s: float) -> None:
    assert _pause_s(reports) == pause_s


BOTH, ONE = ("bills", "orders"), ("orders",)


@pytest.mark.parametrize(
    ("takes_s", "expected"),
    [
        (0.1, [BOTH, ONE, ONE, ONE, BOTH, BOTH]),
        (0.3, [BOTH, ONE, ONE, ONE, ONE, BOTH]),
        (1.0, [BOTH, ONE, ONE, ONE, ONE, BOTH]),
    ],
)
def test_a_wait_for_one_topic_looks_at_all_once_a_second_or_a_fifth_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, expected: list[tuple[str, ...]]
) -> None:
    site, stop, looks = Site(), threading.Event(), list[tuple[str, ...]]()
    site.add_topic("orders")
    site.add_topic("bills")

    def step(_: object, names: Collection[str], __: object) -> list[TopicReport]:
        looks.append(tuple(names))
        site.clock.advance(0.4 if len(names) == 1 else takes_s)
        if len(looks) == 6:
            stop.set()
        waits = len(looks) < 5
        return [replace(report(TopicOutcome.WAITING if waits else TopicOutcome.UNCHANGED), topic="orders")]

    monkeypatch.setattr(transitions, "step", step)
    loop.run(site.coordinator, stop, "test")
    assert looks == expected
