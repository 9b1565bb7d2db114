"""The limit of a slow batch, by the recent batches and the batch's size."""

from math import inf

import pytest

from spark_apps.agent.ownership.batch_times import ENOUGH, RECENT, BatchTimes


def after(*batches: tuple[float, int]) -> BatchTimes:
    """Long past batches of this duration and number of offsets."""
    times = BatchTimes()
    for took_s, size in batches:
        times.begin(size, 0.0)
        times.end(took_s)
    return times


USUAL = [(2.0, 10)] * ENOUGH


@pytest.mark.parametrize(
    ("batches", "size", "least_s", "most_s", "limit_s"),
    [
        pytest.param(USUAL, 10, 30.0, inf, 30.0, id="short batches have the least limit"),
        pytest.param([(5.0, 10)] * ENOUGH, 10, 30.0, inf, 50.0, id="long ones have ten times their time"),
        pytest.param(USUAL, 100, 30.0, inf, 200.0, id="a batch ten times as large may take ten times as long"),
        pytest.param(USUAL, 1, 30.0, inf, 30.0, id="a small one has the limit of the others"),
        pytest.param(USUAL, 100, 30.0, 120.0, 120.0, id="but at most so long"),
        pytest.param(USUAL[1:], 10, 30.0, 300.0, 300.0, id="before there were enough, only that counts"),
        pytest.param([*USUAL, (500.0, 10)], 10, 30.0, inf, 30.0, id="one that was stuck changes nothing"),
        pytest.param([(50.0, 10)] * RECENT + [(2.0, 10)] * RECENT, 10, 30.0, inf, 30.0, id="old ones are forgotten"),
    ],
)
def test_the_limit_of_a_batch(
    batches: list[tuple[float, int]], size: int, least_s: float, most_s: float, limit_s: float
) -> None:
    times = after(*batches)
    times.begin(size, 1_000.0)
    assert not times.exceeds(1_000.0 + limit_s, least_s, most_s)
    assert times.exceeds(1_000.1 + limit_s, least_s, most_s)


def test_what_is_usual_is_said_once_it_is_known() -> None:
    times = after(*USUAL)
    times.begin(7, 10.0)
    assert times.told(55.0) == "a batch of 7 offsets has not ended for 45 s (2.0 s is usual)"
    new = BatchTimes()
    new.begin(7, 10.0)
    assert new.told(55.0) == "a batch of 7 offsets has not ended for 45 s"
