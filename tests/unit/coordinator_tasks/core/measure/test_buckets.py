"""A histogram counts a value in each bucket whose bound it does not exceed."""

from coordinator_tasks.core.measure.buckets import PAUSE_S, Buckets


def test_a_value_at_a_bound_belongs_to_it() -> None:
    buckets = Buckets((0.001, 0.01))
    for value in (0.001, 0.005, 7.0):
        buckets.add(value)
    assert buckets.cumulative() == [("0.001", 1), ("0.01", 2), ("+Inf", 3)]
    assert buckets.total == 7.006


def test_the_bounds_of_pauses_are_fine_up_to_a_second() -> None:
    assert list(PAUSE_S) == sorted(set(PAUSE_S))
    assert PAUSE_S[0] == 0.001
    assert sum(1 for bound in PAUSE_S if bound <= 1.0) >= 15
