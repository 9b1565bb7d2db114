"""The predicted pause of a moved partition: conditions and accuracy."""

import random
from collections.abc import Callable

import pytest

from coordinator_tasks.core.measure.pause_prediction import MAX_MOVES, Interval, PastMove, predict
from coordinator_tasks.core.model import MoveKind

HANDOFF = MoveKind.HANDOFF


def past(*pauses: float, kind: MoveKind = HANDOFF) -> list[PastMove]:
    return [PastMove(kind, pause) for pause in pauses]


@pytest.mark.parametrize(("count", "low", "high"), [(1, 0.25, 4.0), (3, 0.25, 12.0), (4, 0.5, 8.0), (8, 0.5, 16.0)])
def test_with_few_moves_the_prediction_is_rough_and_wide(count: int, low: float, high: float) -> None:
    found = predict(past(*map(float, range(1, count + 1))), HANDOFF)
    assert (found.rough, found.total.low_s, found.total.high_s, found.moves) == (True, low, high, count)
    assert predict(past(), HANDOFF) is None


def test_the_extra_pause_is_what_is_left_of_each_total_without_its_usual() -> None:
    found = predict([PastMove(HANDOFF, 0.75, 0.5), *[PastMove(HANDOFF, 0.5, 0.5)] * 9, PastMove(HANDOFF, 0.9)], HANDOFF)
    assert (found.extra, found.usual_s, found.rough) == (Interval(0.0, 0.0, 0.25), 0.5, False)
    assert found.text == "extra pause 0.0 ms (0.0 ms to 250 ms); total 500 ms (500 ms to 900 ms), usual 500 ms"


def test_only_moves_of_the_same_kind_count() -> None:
    mixed = past(*[1.0] * 20) + past(*[30.0] * 20, kind=MoveKind.BARRIER)
    for kind, length in ((HANDOFF, 1.0), (MoveKind.BARRIER, 30.0)):
        found = predict(mixed, kind)
        assert (found.total.low_s, found.total.median_s, found.total.high_s) == (length, length, length)
    assert predict(mixed, MoveKind.START) is None


def test_only_the_newest_moves_count() -> None:
    found = predict(past(*[1.0] * MAX_MOVES, *[9.0] * MAX_MOVES), HANDOFF)
    assert (found.total.high_s, found.moves) == (1.0, MAX_MOVES)


@pytest.mark.parametrize(("count", "low", "high"), [(9, 0, 8), (10, 0, 9), (19, 1, 17), (99, 9, 89), (100, 9, 90)])
def test_the_interval_is_between_ranks(count: int, low: int, high: int) -> None:
    found = predict(past(*map(float, reversed(range(count)))), HANDOFF)
    assert (found.total.low_s, found.total.median_s, found.total.high_s) == (low, (count - 1) / 2, high)
    assert found.moves == count


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.lognormvariate(-2, 0.8),
        lambda r: r.uniform(0.1, 0.2),
        lambda r: r.choice([0.05, 0.05, 3.0]) + r.random() / 100,
    ],
    ids=["long tail", "even", "two kinds of batches"],
)
def test_four_of_five_pauses_lie_in_the_interval(draw: Callable[[random.Random], float]) -> None:
    """Each of 2,000 moves is predicted from the earlier moves."""
    r, seen, inside, asked = random.Random(7), list[PastMove](), 0, 0
    for _ in range(2_000):
        pause, found = draw(r), predict(seen, HANDOFF)
        if found is not None and not found.rough:
            asked, inside = asked + 1, inside + (found.total.low_s <= pause <= found.total.high_s)
        seen.insert(0, PastMove(HANDOFF, pause))
    assert 0.78 <= inside / asked <= 0.85
