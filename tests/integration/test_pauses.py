"""The pauses that the history says, against the rows of the sinks: the rows know nothing of ZooKeeper, the agent or its status."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from coordinator_tasks.core.measure.pauses import sentence
from coordinator_tasks.core.model import Pauses, Record
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed
from tests.pauses_by_rows import SHIFT_S, TARGET_MS, Plain, compared
from tests.stored_pauses import stored_pauses

PARTITIONS = 12
pytestmark = [pytest.mark.integration, pytest.mark.partitions(PARTITIONS)]
ROOT = Path(__file__).resolve().parents[2]
MEDIAN_S = TARGET_MS / 1000
"""Rows know when each record was produced and written, to the millisecond: the producer's pause of 10 ms between two records of a
partition is no excuse. The history takes records between two looks as evenly spaced, which is wrong by less than one pause."""
BUSY = 0.3
"""Where a pause takes more than 33 ms by the rows, it is the machine that has no core free: then three tenths of it are allowed."""


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Callable[..., Plain]]:
    """Starts consumers, and ends those that a failed test has left."""
    started: list[Plain] = []

    def start(site: Site, name: str, shift_s: float = 0.0) -> Plain:
        started.append(Plain(site.settings, name, tmp_path, shift_s))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def measured(managed: Managed, name: str) -> tuple[Record, Record]:
    """The first and the last record of a rebalance that is wholly measured."""

    def there() -> list[Record]:
        found = [record for record in managed.history() if record.rebalance == name]
        done = found and found[-1].pauses is not None and not found[-1].pauses.missing
        return found if done else []

    wait_for(there, "all pauses are measured", LIMIT_S)
    found = there()
    return found[0], found[-1]


def test_the_pauses_in_the_history_are_those_of_the_rows_though_clocks_differ(
    managed: Managed, plain: Callable[..., Plain]
) -> None:
    """The clock of `a` is seven minutes behind, and the clocks of joining consumers are seven minutes ahead."""
    site = managed.site
    running = {name: plain(site, name, -SHIFT_S if name == "a" else 0.0) for name in "ab"}
    ended: list[Plain] = []
    names: list[str] = []
    with managed.looping():
        managed.stable("ab")
        traffic = Traffic(site, per_second=100.0)
        wait_for(lambda: all(len(one.seen()) > 500 for one in running.values()), "records flow", LIMIT_S)
        for number in range(3):
            third = f"c{number}"
            running[third] = plain(site, third, SHIFT_S)
            wait_for(lambda third=third: managed._is_stable(["a", "b", third]), f"{third} has joined", LIMIT_S)
            names.append(managed.history()[-1].rebalance)
            measured(managed, names[-1])
            running[third].leave()
            ended.append(running.pop(third))
            managed.stable("ab")
            names.append(managed.history()[-1].rebalance)
            measured(managed, names[-1])
        traffic.close()
        for one in running.values():
            one.leave()
    rows = [row for one in (*running.values(), *ended) for row in one.seen()]
    found = compared([record for record in managed.history() if record.rebalance in names], rows)
    for rebalance in names:
        first, last = measured(managed, rebalance)
        stored: Pauses | None = last.pauses
        assert stored is not None
        assert stored.left_out == ()
        assert {one.partition for one in stored.measured} == {m.partition for m in first.moves}, "every moved partition"
        assert all(one.last_at is not None and one.released_at is not None for one in stored.measured)
        of_it = [one for one in found if one.rebalance == rebalance]
        assert len(of_it) == sum(one.wait_s is not None for one in stored.measured), "rows know every one of them"
        print(f"\n{sentence(stored)}", *(pause.row for pause in of_it), sep="\n  ")
        assert stored.unmoved is not None
    # A row's time is from before its write, the agent's from after it: on a busy machine a write takes its share.
    outside = [one for one in found if abs(one.off_s) > one.error_s + 0.010 + BUSY * one.stall_s]
    assert len(outside) <= len(found) / 10, "a busy machine has longer pauses, and wider bounds"
    allowed = max(MEDIAN_S, BUSY * median(one.stall_s for one in found), median(one.error_s for one in found))
    assert median(abs(one.off_s) for one in found) < allowed
    with open_coordinator(site.settings) as c:
        assert len(stored_pauses(c, site.topic)) >= len(found)
