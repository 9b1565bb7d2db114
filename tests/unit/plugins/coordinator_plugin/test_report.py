"""Reports and reasons as lines of a task's log."""

import json

from coordinator_plugin import report

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Explanation, Move, MoveKind, Reason, State
from coordinator_tasks.service.plan.transitions import TopicReport


def test_a_report_reads_as_sentences() -> None:
    moves = (Move(1, "a", "b", MoveKind.HANDOFF), Move(4, "a", "b", MoveKind.HANDOFF), Move(2, "", "c", MoveKind.START))
    done = TopicReport("orders", State.STABLE, State.CLOSING, TopicOutcome.WRITTEN, "joined: b", moves, ("a",), 7, "r1")
    assert list(report.lines([done])) == [
        "orders: Stable -> Closing, written at epoch 7: joined: b",
        "orders:   1 partition starts on c: 2",
        "orders:   2 partitions from a to b by hand-off: 1, 4",
        "orders:   waits for a",
    ]
    assert json.loads(json.dumps(report.plain(done)))["moves"][0] == [1, "a", "b", "handoff"]


def test_the_log_of_a_plan_names_the_reasons_of_most_partitions_and_how_many_more_there_are() -> None:
    found = [Reason(f"because {n}", tuple(range(n))) for n in range(1, report.SHOWN_REASONS + 3)]
    lines = list(report.reasons(Explanation("s", "i", "the summary", tuple(found), (Reason("it fits", (7,)),))))
    assert lines[0] == "the summary"
    assert lines[1].endswith(f" move: because {report.SHOWN_REASONS + 2}")
    assert lines[-2:] == ["and 2 more reasons why partitions move", "why 7 stay: it fits"]
