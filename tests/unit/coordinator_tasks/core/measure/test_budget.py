"""Which moves exceed a site's budget, and how that is said."""

import pytest

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.measure.budget import Budget, counted_moves, why_over
from coordinator_tasks.core.measure.pause_prediction import Interval, Prediction
from coordinator_tasks.core.measure.pauses import milliseconds
from coordinator_tasks.core.model import Move, MoveKind

H, MIDNIGHT = MoveKind.HANDOFF, 86_400.0 * 20_000


def moves(count: int, kind: MoveKind = H) -> list[Move]:
    return [Move(p, "a", "b", kind) for p in range(count)]


@pytest.mark.parametrize(
    ("budget", "count", "expected"),
    [
        pytest.param(Budget(), 9, (), id="no limit"),
        pytest.param(Budget(moves=3), 3, (), id="as many as allowed"),
        pytest.param(Budget(moves=3), 4, ("4 partitions would move, and the budget is 3",), id="one more"),
        pytest.param(Budget(share=30), 3, (), id="the share that is allowed"),
        pytest.param(Budget(share=30), 4, ("40 % of the partitions would move, and the budget is 30 %",), id="more"),
        pytest.param(Budget(hours=("22:00-05:30",)), 1, (), id="within the time"),
        pytest.param(Budget(hours=("05:30-22:00",)), 1, ("the time is outside of 05:30-22:00 UTC",), id="outside"),
        pytest.param(Budget(hours=("05:30-22:00", "00:00-01:00")), 1, (), id="one of several"),
        pytest.param(Budget(moves=1, hours=("05:30-22:00",)), 0, (), id="nothing moves, whenever"),
        pytest.param(
            Budget(pause_s=1.0),
            1,
            (f"a pause cannot be predicted yet, and the budget is {milliseconds(1.0)}",),
            id="unknown",
        ),
    ],
)
def test_a_plan_and_its_budget(budget: Budget, count: int, expected: tuple[str, ...]) -> None:
    assert why_over(budget, moves(count), 10, {}, MIDNIGHT) == expected


def test_the_upper_end_of_the_longest_predicted_pause_counts() -> None:
    short, long = Prediction(Interval(0.1, 0.05, 0.4), 20), Prediction(Interval(0.2, 0.1, 0.6), 20)
    both = [*moves(1), *moves(1, MoveKind.BARRIER)]
    known = {H: short, MoveKind.BARRIER: long}
    assert why_over(Budget(pause_s=0.6), both, 10, known, MIDNIGHT) == ()
    (said,) = why_over(Budget(pause_s=0.5), both, 10, known, MIDNIGHT)
    assert said == f"a total pause of {long.total.text} is predicted, and the budget is {milliseconds(0.5)}"
    assert why_over(Budget(pause_s=0.5), moves(1), 10, known, MIDNIGHT) == ()
    rough = {H: Prediction(short.total, 3, rough=True)}
    (said,) = why_over(Budget(pause_s=0.5), moves(1), 10, rough, MIDNIGHT)
    assert said.startswith("a pause cannot be predicted yet"), "a rough prediction lets nothing pass"


@pytest.mark.parametrize(
    ("minute", "within"), [(0, True), (5 * 60 + 29, True), (5 * 60 + 30, False), (1319, False), (1320, True)]
)
def test_hours_that_cross_midnight(minute: int, within: bool) -> None:
    found = why_over(Budget(hours=("22:00-05:30",)), moves(1), 10, {}, MIDNIGHT + 60 * minute)
    assert (found == ()) is within


def test_only_moves_from_an_owner_that_lives_on_count() -> None:
    given = [
        Move(0, "a", "b", H),
        Move(1, "", "b", MoveKind.START),
        Move(2, "a", "", MoveKind.STOP),
        Move(3, "b", "b", MoveKind.RESTART),
        Move(4, "c", "b", H),
        Move(5, "a", "b", MoveKind.BARRIER),
    ]
    assert [one.partition for one in counted_moves(given, frozenset({"c"}))] == [0, 5]


@pytest.mark.parametrize("wrong", ["22-5", "24:00-01:00", "22:00", "22:00-05:60", "always", 101])
def test_hours_that_are_none_and_a_share_above_everything_are_refused(wrong: str | int) -> None:
    with pytest.raises(BadSettings, match=r"no time of the day|more than all partitions"):
        Budget(hours=(wrong,)) if isinstance(wrong, str) else Budget(share=wrong)
