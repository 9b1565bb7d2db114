"""The simulated fleet of the growth policies: the fleet reads up to its limit, and each policy follows the load."""

import pytest

from benchmarks.autoscale import CAPACITY, PARTITIONS, START_UP_S, Fleet, run


def test_consumers_read_at_most_what_they_give_and_records_are_kept() -> None:
    fleet, came, went = Fleet(), 0.0, 0.0
    for _ in range(100):
        rates = [200.0] * PARTITIONS
        fleet.step(rates)
        came += sum(rates)
        went += sum(fleet.read)
        assert sum(fleet.read) <= 3 * CAPACITY + 1e-6
    assert came == pytest.approx(went + sum(fleet.lag))
    assert sum(fleet.read) == pytest.approx(3 * CAPACITY)


def test_a_new_consumer_reads_after_its_start_and_gets_its_share() -> None:
    fleet = Fleet()
    fleet.resize(4)
    for _ in range(START_UP_S):
        fleet.step([1.0] * PARTITIONS)
        assert 3 not in fleet.owners
    fleet.step([1.0] * PARTITIONS)
    assert fleet.owners.count(3) == PARTITIONS // 4
    assert fleet.moves == PARTITIONS // 4, "no other partition moves"


def test_a_sink_bounds_all_of_them_together() -> None:
    fleet = Fleet(sink=500.0)
    fleet.step([1_000.0] * PARTITIONS)
    assert sum(fleet.read) == pytest.approx(500.0)


def test_a_restart_of_flinks_job_counts_each_partition_as_one_move() -> None:
    found = run("diurnal", "Flink", hours=1.5).cell
    assert found["changes"] > 0
    assert found["moves"] == PARTITIONS * found["changes"]
