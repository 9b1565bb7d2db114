"""The stalls that the report of an upgrade says, against the rows of the sink: the rows know nothing of ZooKeeper or the agent."""

import json
from collections.abc import Sequence

from coordinator_tasks.core.model import Record
from coordinator_tasks.devstack.demo import stalls
from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.service.fleets.upgrade_report import UpgradeReport
from tests.pauses_by_rows import compared

CLOSE_S, SHARE = 0.3, 0.3
"""A row's time is from before its write, and Spark says that a batch has passed after its commit: on a busy machine later."""


def agree(found: UpgradeReport, records: Sequence[Record], rows: Sequence[Row], partitions: int) -> None:
    """Each partition has a stall, and each one agrees. `records`: of the only topic, oldest first."""
    print("", *found.lines, sep="\n")
    assert [one.partition for one in found.partitions] == list(range(partitions))
    assert all(one.moves == one.measured for one in found.partitions)
    by_rows = {(one.rebalance, one.partition): one for one in compared(records, rows)}
    known = [one for one in found.moved if one.stall_s is not None and not one.least]
    assert known
    for one in known:
        row = by_rows[one.rebalance, one.partition]
        print(json.dumps(row.row))
        assert row.wait_s == one.stall_s
        assert abs(row.off_s) < row.error_s + CLOSE_S + SHARE * row.stall_s
    assert all(one.partitions for one in found.control.values())
    _agree_beside(found, records, rows)


def _agree_beside(found: UpgradeReport, records: Sequence[Record], rows: Sequence[Row]) -> None:
    """What did not move stood still no longer than the report says."""
    produced = {(row.partition, row.offset): Produced(row.partition, row.offset, 0, row.produced_at) for row in rows}
    every = stalls.stalls(list(produced.values()), rows)
    for name in dict.fromkeys(one.rebalance for one in found.moved):
        of_it = [one for one in records if one.rebalance == name]
        moved = {move.partition for one in of_it for move in one.moves}
        for one in found.partitions:
            if one.partition not in moved and one.beside_s is not None:
                ends = [s for s in every[one.partition] if of_it[0].at < s.until_at <= of_it[-1].at]
                stall_s = max((s.length_s for s in ends), default=0.0)
                print(
                    f"{one.partition} beside: {stall_s:.3f} s by the rows, at most {one.beside_s:.3f} s by the history"
                )
                assert stall_s < one.beside_s * (1 + SHARE) + CLOSE_S
