"""The benchmark that compares the history's pauses with the sinks' rows: which stall belongs to a pause, and what it sums up."""

import pytest

from benchmarks.pause_truth import compared
from coordinator_tasks.core.model import Actor, Move, MoveKind, Pause, Pauses, Record, State
from coordinator_tasks.devstack.demo.evidence import Row


def row(consumer: str, epoch: int, offset: int, produced_at: float, processed_at: float) -> Row:
    return Row(consumer, 0, epoch, 0, offset, 0, produced_at, processed_at)


ROWS = [
    row("a", 3, 0, 10.00, 10.01),
    row("a", 3, 1, 10.10, 10.11),
    row("b", 7, 2, 10.20, 10.60),  # it waited for the hand-off
    row("b", 7, 3, 10.30, 10.60),
    row("b", 7, 4, 10.70, 11.90),  # a later stall of the taker, which is longer
]


def records(pause: Pause | None, epoch: int = 7) -> list[Record]:
    by = Actor("loop")
    moves = (Move(0, "a", "b", MoveKind.HANDOFF),)
    planned = Record("t", State.STABLE, State.CLOSING, epoch, "g", "r", "joined", by, 0.0, 0.0, 0.0, moves)
    found = Pauses((pause,)) if pause is not None else None
    return [planned, Record("t", State.STARTING, State.STABLE, 9, "g", "r", "", by, 0.0, 0.0, 0.0, pauses=found)]


def test_the_stall_of_a_pause_is_the_one_that_ends_with_the_takers_first_row() -> None:
    (one,) = compared(records(Pause(0, wait_s=0.41, error_s=0.002, records=2)), ROWS)
    assert one.stall_s == pytest.approx(0.40), "from the record that waited longest"
    assert one.off_s == pytest.approx(0.01)
    assert one.row == {
        "partition": 0,
        "pause_ms": 410.0,
        "stated_error_ms": 2.0,
        "rows_ms": 400.0,
        "off_ms": 10.0,
        "records": 2,
    }


@pytest.mark.parametrize("pause", [None, Pause(0), Pause(0, wait_s=1.0, least=True)])
def test_what_only_one_side_knows_is_not_compared(pause: Pause | None) -> None:
    assert compared(records(pause), ROWS) == []


def test_a_taker_without_rows_of_the_plan_is_not_compared() -> None:
    assert compared(records(Pause(0, wait_s=0.41), epoch=8), ROWS) == []
