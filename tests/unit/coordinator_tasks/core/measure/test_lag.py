"""Burrow's rules for a window of commits, and the lag in seconds."""

import pytest

from coordinator_tasks.core.measure.lag import (
    WINDOW,
    EndPoints,
    LagLook,
    LagStatus,
    furthest_s,
    group_status,
    partition_status,
)

EVERY_S = 10.0
WINDOW_S = WINDOW * EVERY_S


def window(*pairs: tuple[int, int]) -> list[LagLook]:
    """Looks `EVERY_S` apart, from offset and lag."""
    return [LagLook(EVERY_S * number, offset, lag) for number, (offset, lag) in enumerate(pairs)]


def steady(offset: int, lag: int) -> list[tuple[int, int]]:
    """A full window whose offsets advance while the lag stays."""
    return [(offset + 10 * number, lag) for number in range(WINDOW)]


def judged(looks: list[LagLook], lag: int | None = None, later_s: float = 1.0) -> LagStatus:
    """Right after the last look, or later; the log's end as the looks say."""
    last = looks[-1]
    known = last.lag or 0 if lag is None else lag
    return partition_status(looks, [last.offset + known], known, last.at + later_s, WINDOW_S)


CASES = {
    "the lag is zero now": (window(*[(100, 5)] * 9, (100, 0)), LagStatus.OK),
    "rule 1: the lag was zero once in the window": (window((100, 0), *[(100, 5)] * 9), LagStatus.OK),
    "rule 2: offsets stand still and there is lag": (window(*[(100, 5 + n) for n in range(WINDOW)]), LagStatus.STALL),
    "rule 2: offsets stand still and the lag does too": (window(*[(100, 5)] * WINDOW), LagStatus.STALL),
    "rule 3: offsets advance and the lag never shrinks": (window(*steady(100, 5)), LagStatus.WARN),
    "rule 3: the lag shrinks once": (window(*steady(100, 5)[:-1], (200, 4)), LagStatus.OK),
    "offsets went back": (window(*steady(100, 5)[:-1], (20, 90)), LagStatus.REWIND),
    "offsets went back and are where they were": (window((100, 9), (90, 9), (100, 8)), LagStatus.OK),
    "offsets went back, also after the lag was zero": (window((100, 0), (20, 80)), LagStatus.REWIND),
    "a window that is not full": (window(*[(100, 5)] * (WINDOW - 1)), LagStatus.OK),
    "nothing is committed": ([], LagStatus.OK),
}


@pytest.mark.parametrize(("looks", "status"), CASES.values(), ids=CASES)
def test_a_window_has_the_status_of_burrows_rules(looks: list[LagLook], status: LagStatus) -> None:
    assert (judged(looks) if looks else partition_status([], [5], 5, 0.0, WINDOW_S)) is status


def test_a_group_is_stopped_when_it_is_silent_for_longer_than_its_window() -> None:
    looks = window(*steady(100, 5))
    assert judged(looks, later_s=WINDOW_S) is LagStatus.WARN
    assert judged(looks, later_s=WINDOW_S + 1) is LagStatus.STOP
    assert judged(looks, lag=0, later_s=WINDOW_S + 1) is LagStatus.OK


def test_a_single_look_needs_the_time_of_a_window_to_be_stopped() -> None:
    looks = [LagLook(0.0, 100, 5)]
    assert judged(looks, later_s=WINDOW_S) is LagStatus.OK
    assert judged(looks, later_s=WINDOW_S + 1) is LagStatus.STOP


def test_a_group_that_was_at_the_end_a_moment_ago_is_not_stopped() -> None:
    looks = [LagLook(0.0, 100, 0)]
    assert partition_status(looks, [100, 105], 5, WINDOW_S + 1, WINDOW_S) is LagStatus.OK
    assert partition_status(looks, [104, 105], 5, WINDOW_S + 1, WINDOW_S) is LagStatus.STOP


def test_a_group_is_at_most_err() -> None:
    assert group_status([]) is LagStatus.OK
    assert group_status([LagStatus.OK, LagStatus.WARN]) is LagStatus.WARN
    assert group_status([LagStatus.WARN, LagStatus.REWIND]) is LagStatus.ERR


# Seconds -------------------------------------------------------------------------------------------------------------


def seen(*pairs: tuple[int, float]) -> EndPoints:
    points = EndPoints()
    for end, at in pairs:
        points.see(end, at)
    return points


def test_between_two_looks_records_are_evenly_spaced() -> None:
    points = seen((100, 0.0), (200, 10.0), (210, 20.0))
    assert points.behind_s(150, 20.0) == 15.0
    assert points.behind_s(205, 20.0) == 5.0


def test_before_the_first_look_the_mean_rate_counts() -> None:
    assert seen((100, 0.0), (200, 10.0)).behind_s(50, 10.0) == 15.0


def test_a_log_that_stood_still_had_its_next_record_only_then() -> None:
    points = seen((100, 0.0), (100, 1.0), (100, 60.0), (110, 61.0))
    assert points.behind_s(100, 61.0) == 1.0


def test_a_recreated_topic_forgets_its_former_ends() -> None:
    assert seen((100, 0.0), (200, 10.0), (5, 20.0)).behind_s(2, 21.0) is None


@pytest.mark.parametrize(
    ("partitions", "seconds"),
    [
        ([], None),
        ([(0, 0.0), (0, None)], 0.0),
        ([(0, 0.0), (9, None)], None),
        ([(0, 0.0), (9, None), (3, 2.0), (3, 4.0)], 4.0),
    ],
)
def test_the_furthest_of_those_behind(partitions: list[tuple[int, float | None]], seconds: float | None) -> None:
    assert furthest_s(partitions) == seconds
