"""Stalls are computed from time stamps alone; `tests/unit/benchmarks/test_stalls.py` has the other cases."""

from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.devstack.demo.stalls import MeasuredStall, stalls


def test_a_stall_ends_with_the_first_processing_of_a_record() -> None:
    produced = [Produced(0, offset, offset, at) for offset, at in enumerate((1.0, 1.1, 1.2))]
    rows = [Row("a", 1, 1, 0, offset, offset, 0.0, at) for offset, at in ((0, 1.5), (1, 2.0), (2, 4.0), (0, 3.0))]
    assert stalls(produced, rows) == {0: [MeasuredStall(1.0, 1.5), MeasuredStall(1.5, 2.0), MeasuredStall(2.0, 4.0)]}
