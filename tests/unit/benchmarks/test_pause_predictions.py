"""The counts of the benchmark of predicted pauses, and the page's text about the results."""

from benchmarks.pause_predictions import Moved, summed_up
from coordinator_tasks.core.measure.pause_prediction import Interval, Prediction

SAID = Prediction(Interval(0.1, 0.05, 0.2), 9)


def moved(pause_s: float | None, said: Prediction | None = SAID) -> Moved:
    return Moved(said, pause_s, 1.0)


def test_only_moves_with_a_prediction_and_a_pause_are_judged() -> None:
    found = summed_up([moved(0.05), moved(0.2), moved(0.21), moved(0.04), moved(None), moved(0.1, None)])
    assert (found["measured"], found["nothing_waited"], found["judged"]) == (6, 1, 4)
    assert (found["inside"], found["below"], found["above"], found["share"]) == (2, 1, 1, 0.5)
