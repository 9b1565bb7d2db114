"""Guarded writes: what one lost race, many, and nothing to change come to."""

from collections.abc import Sequence

import pytest

from coordinator_tasks.core.errors import LookAgain, StoreUnavailable
from coordinator_tasks.core.ports import Operation
from coordinator_tasks.core.protocol.znodes import MAX_ATTEMPTS, compare_and_set, put
from tests.fakes.zookeeper import FakeZooKeeper, FakeZooKeeperServer

PATH = "/counter"


@pytest.fixture
def zk() -> FakeZooKeeper:
    return FakeZooKeeperServer().connect()


def counts(zk: FakeZooKeeper, rival: FakeZooKeeper | None = None, races: int = 0) -> int:
    """Add one to a counter; `rival` changes it that often between the look and the write."""
    left = iter(range(races))

    def attempt() -> tuple[Sequence[Operation], int]:
        node = zk.find(PATH)
        number, version = (int(node.data), node.stat.version) if node is not None else (0, -1)
        if rival is not None and next(left, None) is not None:
            rival.transact([put(PATH, str(number + 10).encode(), version)])
        return [put(PATH, str(number + 1).encode(), version)], number + 1

    return compare_and_set(zk, PATH, attempt)


def test_a_lost_race_is_looked_at_again(zk: FakeZooKeeper) -> None:
    assert counts(zk) == 1
    assert counts(zk, zk, 1) == 12
    assert zk.get(PATH).data == b"12"


def test_after_the_last_attempt_one_error_says_what_changed(zk: FakeZooKeeper) -> None:
    with pytest.raises(LookAgain, match=f"^/counter changed {MAX_ATTEMPTS} times while it was being written$"):
        counts(zk, zk, MAX_ATTEMPTS)
    assert counts(zk, zk, MAX_ATTEMPTS - 1) == 10 * (2 * MAX_ATTEMPTS - 1) + 1


def test_who_is_told_of_a_lost_race_may_end_the_attempts(zk: FakeZooKeeper) -> None:
    counts(zk)

    def lost() -> None:
        raise StoreUnavailable("enough")

    with pytest.raises(StoreUnavailable, match="enough"):
        compare_and_set(zk, PATH, lambda: ([put(PATH, b"", 7)], None), lost=lost)
