"""The simulated fleet of the growth policies: it reads what it can, and each policy answers its load."""

import json
import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.autoscale import (
    CAPACITY,
    LOADS,
    MEAN,
    PARTITIONS,
    POLICIES,
    RECORDED,
    START_UP_S,
    Fleet,
    plot,
    run,
)

ROOT = Path(__file__).parents[3]


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


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", LOADS)
def test_every_policy_runs_under_every_load(load: str, policy: str) -> None:
    found = run(load, policy, hours=0.1).cell
    assert found["consumers_most"] >= 1
    assert found["lag_s_worst"] >= found["lag_s_p99"] >= found["lag_s_median"] >= 0


def test_ours_moves_where_that_is_enough() -> None:
    found = run("uneven partitions", "ours", hours=1.5).cell
    assert found["changes"] <= 1
    assert 0 < found["moves"] <= 2 * PARTITIONS


def test_a_restart_of_flinks_job_counts_each_partition_as_one_move() -> None:
    found = run("diurnal", "Flink", hours=1.5).cell
    assert found["changes"] > 0
    assert found["moves"] == PARTITIONS * found["changes"]


def test_loads_are_the_same_for_every_policy() -> None:
    rates_of, _ = LOADS["noisy rates"]
    again = [rates_of(now, random.Random(7)) for now in (0, 61, 3_000)]
    assert again == [rates_of(now, random.Random(7)) for now in (0, 61, 3_000)]


def test_the_page_shows_the_results_that_are_kept() -> None:
    kept = json.loads((ROOT / "benchmarks/results/autoscale.json").read_text())["cells"]
    page = (ROOT / "benchmarks/results/README.md").read_text()
    assert [(one["load"], one["policy"]) for one in kept] == [(load, policy) for load in LOADS for policy in POLICIES]
    assert [one for one in kept if "| " + " | ".join(str(value) for value in one.values()) + " |" not in page] == []


def test_a_plot_has_a_line_for_each_policy_in_each_chart_within_its_frame() -> None:
    courses = [run("spike", policy, hours=0.2) for policy in POLICIES]
    root = ElementTree.fromstring(plot(courses))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * len(POLICIES)
    _, _, width, height = (float(one) for one in root.attrib["viewBox"].split())
    for line in lines:
        points = [tuple(map(float, one.split(","))) for one in line.attrib["points"].split()]
        assert len(points) == 4, "a point for every three minutes"
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_the_recorded_load_has_its_mean_and_every_record() -> None:
    kept = json.loads(RECORDED.read_text())
    rates_of, _ = LOADS["recorded"]
    seconds = round(len(kept["rates"]) * kept["every_s"])
    rows = [rates_of(now, random.Random(1)) for now in range(seconds)]
    assert sum(map(sum, rows)) / seconds == pytest.approx(MEAN)
    shares = [sum(row[p] for row in kept["rates"]) / sum(map(sum, kept["rates"])) for p in range(PARTITIONS)]
    assert [sum(row[p] for row in rows) / sum(map(sum, rows)) for p in range(PARTITIONS)] == pytest.approx(shares)
