"""Stalls are computed from time stamps alone."""

from math import inf

from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.devstack.demo.stalls import MeasuredStall, stalls


def produced(*times: float) -> list[Produced]:
    return [Produced(0, offset, offset, at) for offset, at in enumerate(times)]


def processed(*times: float) -> list[Row]:
    return [Row("a", 1, 1, 0, offset, offset, 0.0, at) for offset, at in enumerate(times)]


def test_a_stall_begins_with_the_processing_before_while_work_is_left() -> None:
    assert stalls(produced(1.0, 1.1, 1.2), processed(1.5, 2.0, 4.0)) == {
        0: [MeasuredStall(1.0, 1.5), MeasuredStall(1.5, 2.0), MeasuredStall(2.0, 4.0)]
    }


def test_an_idle_partition_does_not_stall() -> None:
    assert stalls(produced(1.0, 9.0), processed(1.5, 9.25))[0] == [MeasuredStall(1.0, 1.5), MeasuredStall(9.0, 9.25)]


def test_what_was_never_processed_stalls_for_ever() -> None:
    assert stalls(produced(1.0, 1.2), processed(2.0))[0] == [MeasuredStall(1.0, 2.0), MeasuredStall(2.0, inf)]


def test_a_repeated_processing_does_not_count_again() -> None:
    again = [*processed(2.0, 3.0), *processed(2.5)]
    assert stalls(produced(1.0, 1.2), again)[0] == [MeasuredStall(1.0, 2.0), MeasuredStall(2.0, 3.0)]
