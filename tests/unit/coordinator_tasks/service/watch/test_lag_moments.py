"""The moments of the last hour: the writer of a moment judges, and all readers see the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.lag_moment_codec import encode_lag_moment
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.lag import WINDOW, LagStatus
from coordinator_tasks.core.measure.lag_moments import EVERY_S, JUDGED_BY, KEPT, LagMoment, seconds, slot_of
from coordinator_tasks.core.model import Silence
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.watch import lag_moments
from tests.fakes.counted import counted
from tests.world.site import Site, stable_site


@pytest.fixture
def site() -> Site:
    return stable_site("a", "b")


def kept(site: Site, most: int = KEPT) -> Sequence[LagMoment]:
    return lag_moments.read(site.coordinator, site.clock.now(), most)


def keep(site: Site) -> list[str]:
    return list(lag_moments.keep(site.coordinator, ["orders"]))


def status(site: Site, partition: int = 0) -> LagStatus:
    one = kept(site)[-1].topics["orders"]
    return LagStatus(one.statuses[list(one.partitions).index(partition)])


def minutes(site: Site, count: int, *, written: int = 0, read: int = 0, offset: int = 90) -> int:
    """So many minutes, each with a look; before each look records are written and read. Returns the committed offset."""
    for _ in range(count):
        site.clock.advance(EVERY_S)
        site.kafka.append("orders", 0, written)
        offset += read
        if read:
            site.commit(0, offset)
        assert keep(site) == []
    return offset


@pytest.fixture
def behind(site: Site) -> Site:
    """Partition 0 is ten records behind."""
    site.kafka.append("orders", 0, 100)
    site.commit(0, 90)
    return site


def test_a_moment_has_the_commits_in_kafka_and_the_owners(behind: Site) -> None:
    minutes(behind, 1)
    (moment,) = kept(behind)
    one = moment.topics["orders"]
    place = list(one.partitions).index(0)
    assert (one.group, one.offsets[place], one.lags[place]) == ("g", 90, 10)
    assert moment.owner(one.owners[place]) == behind.node().assignments[0]


def test_partitions_beyond_the_limit_are_named(behind: Site) -> None:
    limited = replace(behind.coordinator, policy=Policy(lag_partitions=1))
    for partition in range(1, 4):
        behind.commit(partition, 0)
    lines = list(lag_moments.keep(limited, ["orders"]))
    assert lines == ["the lags of 3 partitions are not kept, beyond policy.lag_partitions (1)"]
    (moment,) = kept(behind)
    assert (len(moment.topics["orders"].partitions), moment.left_out) == (1, 3)


def test_one_moment_is_kept_a_minute_and_an_hour_of_them(behind: Site) -> None:
    for _ in range(3 * KEPT):
        behind.clock.advance(EVERY_S / 2)
        keep(behind)
    found = kept(behind)
    assert KEPT - 1 <= len(found) <= KEPT
    assert found[-1].at - found[0].at <= 3600
    assert len(behind.zk.children(behind.paths.lags)) == KEPT
    before = [one.at for one in found]
    keep(behind)
    assert [one.at for one in kept(behind)] == before


def test_an_owner_that_answers_and_reads_nothing_is_stalled_after_a_window(behind: Site) -> None:
    minutes(behind, WINDOW - 1)
    assert status(behind) is LagStatus.OK
    minutes(behind, 1)
    assert status(behind) is LagStatus.STALL
    minutes(behind, 3 * JUDGED_BY)
    assert status(behind) is LagStatus.STALL


def test_an_owner_that_is_silent_is_stopped_and_stays_so(behind: Site) -> None:
    minutes(behind, 2)
    behind.processes[behind.node().assignments[0]].silence = Silence.SILENT
    minutes(behind, WINDOW, written=10)
    assert status(behind) is LagStatus.OK
    minutes(behind, 1, written=10)
    assert status(behind) is LagStatus.STOP
    minutes(behind, 2 * JUDGED_BY, written=10)
    assert status(behind) is LagStatus.STOP


def test_only_owners_whose_commits_stand_still_are_asked(behind: Site) -> None:
    behind.coordinator, requests = counted(behind.coordinator)
    minutes(behind, 3, written=5, read=5)
    assert requests.polls == []
    minutes(behind, 1, offset=0)
    assert requests.polls == [(behind.node().assignments[0],)]


def test_the_lag_in_seconds_is_known_once_the_log_has_grown(behind: Site) -> None:
    minutes(behind, 3, written=60)
    late = [seconds(one.topics["orders"].late[0]) for one in kept(behind)]
    assert late == [None, 130.0, 190.0]


def test_a_partition_without_a_leader_is_named_and_hides_no_other(behind: Site) -> None:
    behind.kafka.leaderless = {1}
    (line,) = lag_moments.keep(behind.coordinator, ["orders"])
    assert line.startswith("the lag of group g is not known: KPC-042: partition 1 of topic 'orders' has no leader; ")
    assert list(kept(behind)[-1].topics["orders"].partitions) == [0, 2, 3]


@pytest.mark.parametrize("raw", [b"{", b'{"version":2,"packed":""}'])
def test_a_node_that_cannot_be_read_is_named_and_never_overwritten(behind: Site, raw: bytes) -> None:
    minutes(behind, 1)
    behind.clock.advance(EVERY_S)
    path = behind.paths.lag(slot_of(behind.clock.now()))
    behind.zk.transact([Create(path, raw)])
    (line,) = keep(behind)
    assert path in line
    assert behind.zk.get(path).data == raw
    assert len(kept(behind)) == 1
    behind.clock.advance(EVERY_S)
    (again,) = keep(behind)
    assert again == line
    assert len(kept(behind)) == 2, "the others are kept"


def test_two_who_write_at_once_leave_one_moment(behind: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    behind.clock.advance(EVERY_S)
    path = behind.paths.lag(slot_of(behind.clock.now()))

    def overtaken(moment: LagMoment) -> bytes:
        behind.zk.ensure(behind.paths.lags)
        behind.zk.transact([Create(path, b"theirs")])
        return encode_lag_moment(moment)

    monkeypatch.setattr(lag_moments, "encode_lag_moment", overtaken)
    assert keep(behind) == []
    assert behind.zk.get(path).data == b"theirs"
