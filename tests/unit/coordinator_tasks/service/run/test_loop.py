"""How long the plain loop waits between two looks."""

import pytest

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Move, MoveKind, State
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run.loop import BUSY_S, HANDOFF_S, QUIET_S, _pause_s


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
