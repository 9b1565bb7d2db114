"""What the tables of measurements say of a result: its circumstances once, its figures, and in each row which target is met."""

import json
import math
import os
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks import (
    assignors,
    autoscale,
    demo,
    fence,
    growth,
    handoff,
    handoff_report,
    headline,
    latency,
    live_page,
    pause_predictions,
    pause_truth,
    reads,
    rebalance,
    receiver,
    record_load,
    scale,
    sinks,
    source,
    task_overhead,
    upgrades,
    weighted,
)
from benchmarks.circumstances import noted, told
from benchmarks.headline import FURTHER, Place, tables
from benchmarks.pause_truth import Compared
from benchmarks.result import grid, output, verdict
from coordinator_tasks.core.fleet.upgrade import Event, Phase, Rule, Upgrade
from coordinator_tasks.core.model import FleetVersion, Unmoved
from coordinator_tasks.service.fleets.upgrade_report import MovedPartition, UpgradeReport

FOLDER = Path(source.__file__).parent
WITH_A_FILE = [
    import_module(f"benchmarks.{file.stem}") for file in sorted(FOLDER.glob("*.py")) if '"--json"' in file.read_text()
]
MACHINE = {
    "cores": 2,
    "processor": "a processor",
    "memory_gib": 24,
    "measured_on": "2026-11-01",
    "commit": "abc",
    "load_before": 0.25,
    "load_after": 1.5,
}
SAID = "2 cores (a processor), 24 GiB, load 0.2 before and 1.5 at the end of the run; measured on 2026-11-01 at commit abc."


def one(value: float) -> dict[str, float]:
    return {"n": 1, "min": value, "median": value, "p90": value, "p95": value, "max": value}


def of(*names: str, **given: float) -> dict[str, dict[str, float]]:
    return {**{name: one(1.0) for name in names}, **{name: one(value) for name, value in given.items()}}


def rows(made: str, said: str) -> list[list[str]]:
    """The cells of the table's rows, below this line of circumstances."""
    first, empty, _, _, *lines = made.splitlines()
    assert (first, empty) == (said, "")
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]


def last(made: str, said: str) -> dict[str, str]:
    """The last cell of each row, by its first."""
    return {row[0]: row[-1] for row in rows(made, said)}


def test_a_line_of_circumstances_has_what_the_result_has() -> None:
    assert told(MACHINE, "3 rounds", "in turns") == f"3 rounds, in turns, {SAID}"
    assert told({"cores": 2}, "3 rounds") == "3 rounds, 2 cores; its day and commit were not noted."


def test_a_result_begins_with_the_circumstances_and_ends_with_the_load() -> None:
    with noted(rounds=3) as result:
        assert "load_after" not in result
        result["cells"] = []
    assert told(result, "3 rounds").startswith(f"3 rounds, {result['cores']} cores ({result['processor']}), ")
    assert list(result)[-4:] == ["rounds", "load_before", "cells", "load_after"]


def test_figures_stand_at_the_right_and_texts_at_the_left() -> None:
    assert grid(("", "a", "target"), [("x", "1", "met")], ("target",)).splitlines() == [
        "|  | a | target |",
        "|---|--:|---|",
        "| x | 1 | met |",
    ]
    assert verdict((True, "≤ 5 s"), (False, "≤ 2 s")) == "met: ≤ 5 s; **missed**: ≤ 2 s"
    assert verdict() == "–"


@pytest.mark.parametrize(
    ("stage", "ours", "expected"),
    [
        ("plain", 200.0, "met: ≥ 2"),
        ("plain", 199.0, "**missed**: ≥ 2"),
        ("mapInArrow", 140.0, "met: ≥ 1.4"),
        ("mapInArrow", 139.0, "**missed**: ≥ 1.4"),
    ],
)
def test_the_source_is_judged_beside_the_tuned_one_alone(stage: str, ours: float, expected: str) -> None:
    sides = {
        side: of(*source.FIGURES, steady_per_s=value)
        for side, value in {"ours": ours, "jvm": 50.0, "tuned": 100.0, "control": 500.0}.items()
    }
    cell = {"size": 150, "stage": stage, "records": 6_000, "sides": sides}
    found = rows(source.markdown({**MACHINE, "cells": [cell]}), f"One round, {SAID}")
    assert found[0][0].startswith("150 B")
    assert found[0][0].endswith("6,000 records: ours")
    assert [row[-2:] for row in found] == [
        ["", "–"],
        [f"{ours / 50:.2f}", "–"],
        [f"{ours / 100:.2f}", expected],
        ["", "–"],
    ]


def latencies(ours: float, tuned: float) -> dict[str, Any]:
    parts = [f"{name}_ms" for name in latency.PARTS]
    return {
        "ours": of(*parts, p50_ms=ours, p95_ms=200.0, p99_ms=300.0),
        "tuned": of(*parts, p50_ms=tuned, p95_ms=200.0, p99_ms=300.0),
        "control": of(p50_ms=4.0, p95_ms=5.0, p99_ms=6.0),
    }


def test_ours_is_to_be_no_slower_than_the_tuned_source_and_small_batches_quick() -> None:
    result = {**MACHINE, "seconds": 20.0, "warm_up_s": 40.0}
    said = f"One round, 20 s each after 40 s, {SAID}"
    assert last(latency.markdown({**result, "latency": latencies(101, 100), "small": latencies(121, 130)}), said) == {
        "1,000 records/s: ours": "**missed**: p50 ≤ 100; met: p95 ≤ 200; met: p99 ≤ 300",
        "10 records every 0.5 s: ours": "met: p50 ≤ 130; met: p95 ≤ 200; met: p99 ≤ 300; **missed**: p50 ≤ 120",
        "Spark's, tuned": "–",
        "control": "–",
    }
    made = latency.markdown({**result, "small": latencies(120, 119)})
    assert last(made, said)["10 records every 0.5 s: ours"].endswith("; met: p50 ≤ 120")
    assert latency.idle_markdown(result) == latency.markdown(result) == "", "the places keep their text"


def test_the_idle_table_names_the_partitions_and_each_part() -> None:
    idle = {
        f"{side}, {topic}": of(driver_cores=0.0281, jvm_cores=0.035, python_cores=0.004)
        for topic in ("few", "many")
        for side in ("ours", "jvm")
    }
    found = rows(latency.idle_markdown({**MACHINE, "idle": idle}), f"One round, {SAID}")
    assert [row[0] for row in found] == [
        "4 owned partitions: ours",
        "Spark's, as it comes",
        "1,000 owned partitions: ours",
        "Spark's, as it comes",
    ]
    assert found[0][1:] == ["0.028", "0.035", "0.004"]


def changes(what: str, total_s: float, mib: float) -> dict[str, Any]:
    figures = dict.fromkeys(scale.FIGURES, 1)
    return {"joins and leaves": {"load": 0.5, "changes": [{"what": what, **figures, "total_s": total_s, "mib": mib}]}}


@pytest.mark.parametrize(
    ("size", "what", "packed", "expected"),
    [
        ("1000x10000", "one joins", (5.0, 40.0), "met: Stable ≤ 5 s; met: ≤ a tenth of 400.0 MiB"),
        ("1000x10000", "one joins", (5.1, 40.1), "**missed**: Stable ≤ 5 s; **missed**: ≤ a tenth of 400.0 MiB"),
        ("1000x10000", "a tenth leaves", (9.0, 40.0), "met: ≤ a tenth of 400.0 MiB; met: ≤ a tenth of 696.7 MiB"),
        (
            "1000x10000",
            "a tenth leaves",
            (9.0, 69.7),
            "**missed**: ≤ a tenth of 400.0 MiB; **missed**: ≤ a tenth of 696.7 MiB",
        ),
        ("100x10000", "one joins", (9.0, 40.0), "met: ≤ a tenth of 400.0 MiB"),
    ],
)
def test_the_packed_form_is_judged_beside_the_plain_one(
    size: str, what: str, packed: tuple[float, float], expected: str
) -> None:
    result = {"packed": {size: changes(what, *packed)}, "plain": {size: changes(what, 4.0, 400.0)}}
    machine = {name: value for name, value in MACHINE.items() if not name.startswith("load")}
    said = "Settle time 1 s, 2 cores (a processor), 24 GiB; measured on 2026-11-01 at commit abc."
    plain, other = rows(scale.markdown({**machine, **result}), said)
    assert (plain[2], other[2]) == ("plain", "packed")
    assert other[-2:] == ["0.5", expected]
    assert plain[-1] == ("met: Stable ≤ 5 s" if (size, what) in scale.STABLE_S else "–")


def test_the_targets_of_a_rebalance_count_from_the_settle_time_and_under_airflow_alone() -> None:
    slow = {kind: of(to_plan_s=3.6, to_stable_s=7.5) for kind in ("join", "leave")}
    result = {**MACHINE, "rounds": 8, "settle_s": 1.5, "loop": slow, "airflow": slow}
    found = last(rebalance.markdown(result), f"8 rounds, settle time 1.5 s, {SAID}")
    assert found == {
        "plain loop, join": "–",
        "plain loop, leave": "–",
        "Airflow, join": "**missed**: plan ≤ 3.5 s; met: Stable ≤ 7.5 s",
        "Airflow, leave": "**missed**: plan ≤ 3.5 s; met: Stable ≤ 7.5 s",
    }


def test_what_tasks_and_waits_cost_is_there_only_if_airflow_was_measured() -> None:
    result = {**MACHINE, "rounds": 8, "settle_s": 1.0}
    assert rebalance.costs_markdown(result) == ""
    costs = {"airflow_overhead_s": of(*rebalance.COSTS), "airflow_tasks_s": of("plan", "between tasks")}
    found = rows(rebalance.costs_markdown({**result, "airflow": {}, **costs}), f"8 rounds, settle time 1 s, {SAID}")
    first, *waits = rebalance.COSTS.values()
    assert [row[0] for row in found] == [first, *waits[:2], "`plan`", *waits[2:]]
    assert found[0][1:] == ["1", "1.00", "1.00", "1.00", "1.00"]


def test_task_overhead_shows_the_load_of_each_version() -> None:
    part: dict[str, Any] = {name: {"run_s": [0.1], "chain_s": [0.2]} for name in ("empty", "ours")}
    part |= {"more_s": {"run_s": 0.0, "chain_s": 0.0}, "runs": 8, **MACHINE}
    said = "8 runs of each, 2 cores (a processor), 24 GiB; measured on 2026-11-01 at commit abc."
    assert [row[1:] for row in rows(task_overhead.markdown(part), said)] == [
        ["0.10", "0.10", "0.00", "0.2 to 1.5"],
        ["0.20", "0.20", "0.00", "0.2 to 1.5"],
    ]
    former = {**part, "load_before": [5.0, 1.0, 1.0], "load_after": [4.0, 1.0, 1.0]}
    both = last(task_overhead.markdown({"before": former, "after": part}), said)
    assert (both["a task, before"], both["a task, after"]) == ("5.0 to 4.0", "0.2 to 1.5")


def test_the_receivers_steps_are_said_in_words_and_the_warm_up_once() -> None:
    steps = {"sink": {**one(4.4), "n": 30}, receiver.WARM_UP: one(5714.0)}
    made = receiver.markdown({**MACHINE, "moves": 30, "interval_s": 0.2, "steps_ms": steps})
    assert rows(made, f"30 moves, a batch every 0.2 s, {SAID}") == [
        [receiver.SAID["sink"], "4", "4", "4", "4"],
        [receiver.SAID[receiver.WARM_UP], "", "5,714", "", ""],
    ]


@pytest.mark.parametrize(
    ("case", "figures", "expected"),
    [
        ("fresh", (123.0, 1.5), "–"),
        ("repair: one joins", (49.9, 1.01), "met: < 50 ms; met: fullest ≤ 1.01"),
        ("repair: one joins", (50.0, 1.02), "**missed**: < 50 ms; **missed**: fullest ≤ 1.01"),
    ],
)
def test_a_repair_by_weight_has_a_time_and_a_bound(case: str, figures: tuple[float, float], expected: str) -> None:
    found = {"case": case, "median_ms": figures[0], "fastest_ms": 9.0, "fullest": figures[1], "moves": 1_400}
    made = weighted.markdown({**MACHINE, "partitions": 1000, "consumers": 10, "cases": [{**found, "second_moves": 0}]})
    assert rows(made, f"1,000 partitions on 10 consumers, {SAID}") == [
        [case, f"{figures[0]:.1f}", "9.0", f"{figures[1]:.4f}", "1,400", "0", expected]
    ]


def test_what_weighted_measures_is_what_its_table_shows() -> None:
    cases = list(weighted.measure(60, 6))
    made = weighted.markdown({**MACHINE, "partitions": 60, "consumers": 6, "cases": cases})
    assert [row[0] for row in rows(made, f"60 partitions on 6 consumers, {SAID}")] == [one["case"] for one in cases]


def test_an_assignors_row_says_what_was_missed_and_what_was_not_measured() -> None:
    cell, event = assignors.CELLS[0], "one joins"
    slow = assignors.Row(sticky=1.0, uniform=math.inf, full=2.0, arrays=0.5, moves=1_000)
    quick = assignors.Row(sticky=1.0, uniform=3.0, kafka_moves={"sticky": "9", "uniform": "9"}, full=0.5, arrays=0.5)
    arrays = assignors.Row(sticky=1.0, uniform=3.0, full=0.5, arrays=1.1)
    lines = json.loads(json.dumps([one.line(cell, event) for one in (slow, quick, arrays)], allow_nan=False))
    result = {**MACHINE, "seconds": 5.0, "rows": lines, "memory_mb": 221.4}
    made = assignors.markdown(result)
    said = f"5 s for each measurement of Kafka, a quarter of it for ours, {SAID}"
    head = [cell.name, event, "1.00"]
    assert rows(made, said) == [
        [*head, "gave up", "2.00", "0.500", "–", "–, –", "1,000", "**missed**: full slower than sticky"],
        [*head, "3.00", "0.500", "0.500", "–", "9, 9", "0", "met"],
        [*head, "3.00", "0.500", "1.10", "–", "–, –", "0", "**missed**: arrays slower than sticky"],
    ]
    assert made.endswith("221 MB in the process (met: < 500 MB).")
    assert assignors.markdown({**result, "memory_mb": 500.0}).endswith("(**missed**: < 500 MB).")


@pytest.mark.parametrize(
    ("event", "missing", "target"),
    [
        ("fresh", "sticky", "–"),
        ("fresh", "uniform", "met"),
        ("one joins", "uniform", "–"),
        ("one joins", "sticky", "–"),
    ],
)
def test_no_target_is_met_beside_an_assignor_that_was_not_measured(event: str, missing: str, target: str) -> None:
    times = {name: math.nan if name == missing else 1.0 for name in ("sticky", "uniform", "full", "arrays", "delta")}
    line = assignors.Row(**times).line(assignors.CELLS[1], event)  # type: ignore[arg-type]
    made = assignors.markdown({**MACHINE, "seconds": 5.0, "rows": [line], "memory_mb": 221.4})
    assert [row[-1] for row in rows(made, made.splitlines()[0])] == [target]


def test_moves_that_ended_early_are_no_result() -> None:
    moves = receiver.Moves(None, receiver.Stamps(), 2, None)  # type: ignore[arg-type]
    moves.found = [{"in all": 1.0}]
    with pytest.raises(SystemExit, match="1 of 2 moves"):
        moves.whole()
    moves.found *= 2
    assert moves.whole() == moves.found


class Stuck:
    """A consumer that reads nothing."""

    def __init__(self, *_: object) -> None: ...

    def run(self) -> None: ...

    def leave(self, limit_s: float) -> None: ...


def test_a_backlog_that_is_not_read_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "PlainConsumer", Stuck)
    monkeypatch.setattr(fence, "managing", lambda *_: nullcontext())
    monkeypatch.setattr(fence, "LIMIT_S", 0.0)
    with pytest.raises(SystemExit, match="0 of 400 records of backlog-0 were read within 0 s"):
        fence.throughput("zookeeper:2181", "kafka:9092", "token", "backlog-0", 400)


class Slow:
    """A consumer whose records are old while it warms up: for 0.2 s."""

    def __init__(self, _: object) -> None:
        self.until = time.monotonic() + 0.2

    def get_watermark_offsets(self, _: object) -> tuple[int, int]:
        return 0, 0

    def assign(self, _: object) -> None: ...

    def consume(self, _: int, wait_s: float) -> list[Any]:
        time.sleep(wait_s)
        value = struct.pack("<d", time.time() - (100 if time.monotonic() < self.until else 0))
        return [Mock(value=lambda: value, error=lambda: None)]

    def close(self) -> None: ...


def test_the_control_of_latency_is_measured_as_long_as_the_sources_and_after_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latency, "Consumer", Slow)
    monkeypatch.setattr(latency, "Traffic", lambda *_: nullcontext())
    began = time.monotonic()
    assert latency.control("kafka:9092", "few", "latency", latency.Times(0.3, 0.1))["max_ms"] < 1_000
    assert time.monotonic() - began >= 0.4


def test_growth_has_a_row_for_each_number_of_partitions_with_its_tick() -> None:
    stalls = {name: {"median": 10.0, "worst": 23.0} for name in ("moved", "unmoved", "control")}
    cells = [{"each": 1000, **stalls, "settled_s": 1.21, "own_cores": 0.664}]
    made = growth.markdown({**MACHINE, "rounds": 2, "cells": cells})
    assert rows(made, f"2 rounds, 3,000 records/s in all, {SAID}") == [
        ["1,000", "1,000", "10", "23", "10", "23", "10", "1.2", "0.66"]
    ]


def test_both_fences_stand_side_by_side_with_what_was_read() -> None:
    commit = {"partitions": 10, "hold_ms": 640.0, "commit_ms_median": 5.2, "commit_ms_p95": 11.4, "threads": 54}
    commits = [{**commit, "fence": name, "mib": 5.4} for name in fence.FENCES]
    read = [{"fence": name, "records_per_s": 294_000} for name in fence.FENCES * 2]
    made = fence.markdown({**MACHINE, "records": 600_000, "commits": commits, "throughput": read})
    assert rows(made, f"Both fences in one run, {SAID}") == [["10", "5 ms, 11 ms", "5 ms, 11 ms", "0.6 s", "54, 5 MiB"]]
    assert made.splitlines()[-1] == (
        "A plain consumer that reads a backlog of 600,000 records in 10 partitions: 294,000 and 294,000 records/s with "
        "`token`; 294,000 and 294,000 records/s with `transactional`."
    )


def test_each_way_into_a_sink_stands_with_its_spread() -> None:
    times = {sinks.ALONE: [1.0, 0.512, 4.0], sinks.KEYED: [1039.4], sinks.ONCE: [2.0, 2.0]}
    cells = [{"database": "SQLite", "rows": 1200, "ms": times}]
    made = sinks.markdown({**MACHINE, "rounds": 3, "cells": cells})
    assert rows(made, f"3 rounds, milliseconds for each batch: median (least to most), {SAID}") == [
        ["SQLite", "1,200", "1 (0.512–4)", "1,039 (1,039–1,039)", "2 (2–2)"]
    ]


def test_reads_end_with_the_ratio() -> None:
    taken = {reads.OURS: {"wall": [1.0, 2.0, 3.0], "processor": [1.0, 1.0, 1.0]}}
    taken[reads.KAZOO] = {"wall": [3.0, 4.0, 5.0], "processor": [4.0, 4.0, 4.0]}
    made = reads.markdown({**MACHINE, "nodes": 64, "rounds": 40, "milliseconds": taken})
    first, _, ratio = rows(made, f"40 rounds, in turns, {SAID}")
    assert first == [reads.OURS, "2.0 (1.0 to 3.0)", "1.0 (1.0 to 1.0)"]
    assert ratio == ["ratio of the medians", "0.50", "0.25"]


def test_the_demonstration_has_a_row_for_each_event_and_says_what_became_of_all_records() -> None:
    def shown(p50: float, most: float) -> dict[str, Any]:
        stalls = {name: {"p50": p50, "max": most} for name in demo.STALLS}
        events = [
            {"kind": kind, "moved": 4, **stalls, "to_plan_s": p50 / 1_000, "to_stable_s": 2.0} for kind in demo.KINDS
        ]
        return {**dict.fromkeys(demo.TOTALS, 0), "consumed": 1_000, "duplicated_by_kills": 7, "events": events}

    every = [shown(100, 900), shown(1_500, 1_600), shown(300, 1_700)]
    made = demo.markdown({**MACHINE, "runs": every})
    assert rows(made, f"3 runs, {SAID}") == [
        [title, "4", *["300 / 1,700"] * 3, "0.3", "2.0"] for title in demo.KINDS.values()
    ]
    assert made.splitlines()[-1] == (
        "3,000 records: 0 lost, 0 processed by a consumer that did not own them, 0 repeated by clean moves and 21 by kills."
    )
    assert demo.markdown({**MACHINE, "runs": every[:1]}).startswith("One run, ")


MOVED = MovedPartition("orders", 0, "s-1", "s-3", "1", measured=True, stall_s=0.25)


def upgrade_of(phase: Phase, reason: str = "") -> Upgrade:
    version = FleetVersion("a.py")
    events = tuple(
        Event(at, text) for at, text in ((100.0, "s-3 starts"), (180.0, "step 1 of 2 (50 %): all"), (212.0, "done"))
    )
    one = Upgrade("shop", version, version, "1", "2", (), (), (), (50, 100), 0, 0, Rule(), "", "", 100.0, 0)
    return replace(one, phase=phase, reason=reason, events=events)


def test_an_upgrade_shows_its_stalls_apart_from_those_of_a_dead_consumer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.5, 0.0, 0.0))
    file = tmp_path / "figures"
    monkeypatch.setenv(upgrades.FIGURES, str(file))
    moved = (MOVED, replace(MOVED, stall_s=1.5), replace(MOVED, stall_s=4.2, least=True), replace(MOVED, stall_s=None))
    control = {"orders": Unmoved(2, longest_s=0.7, partition=1, consumer="s-2", before_s=0.6)}
    against = [Compared("1", 0, 0.25, 0.1, 0.24, 3), Compared("1", 1, 1.5, 0.1, 1.53, 3)]
    failed = UpgradeReport(upgrade_of(Phase.ROLLED_BACK, "step 2 of 2 (100 %): 1 error: x"), moved, control)
    upgrades.keep(failed, against)
    upgrades.keep(UpgradeReport(upgrade_of(Phase.DONE), (MOVED,), {}), against[:1])
    monkeypatch.delenv(upgrades.FIGURES)
    upgrades.keep(failed, against)
    kept = [{"under_airflow": False, **json.loads(line)} for line in file.read_text().splitlines()]
    assert len(kept) == 2, "nothing is kept unless it is asked for"
    every = [*kept, {**kept[0], "stalls_s": [0.1], "load": 4.0}, {**kept[1], "under_airflow": True}]
    assert rows(upgrades.markdown({**MACHINE, "rounds": 2, "upgrades": every}), f"2 rounds, {SAID}") == [
        [
            "plain loop: 50 % and 100 %, fails in step 2 of 2, all moves back",
            *("4", "0.10 / 1.50 s", "4.20 s", "0.70 s", "20 / 30 ms", "112 s", "80 s", "3.5 and 4.0"),
        ],
        [
            "plain loop: 50 % and 100 %, passes",
            *("1", "0.25 / 0.25 s", "–", "none stayed", "10 / 10 ms", "112 s", "80 s", "3.5"),
        ],
        [
            "in Airflow: 50 % and 100 %, passes",
            *("1", "0.25 / 0.25 s", "–", "none stayed", "10 / 10 ms", "112 s", "80 s", "3.5"),
        ],
    ]


def test_an_upgrade_is_held_against_the_rows_of_its_own_moves_alone() -> None:
    own, earlier = Compared("1", 0, 0.25, 0.1, 0.24, 3), Compared("0", 0, 0.9, 0.1, 0.5, 3)
    found = upgrades.figures(UpgradeReport(upgrade_of(Phase.DONE), (MOVED,), {}), [earlier, own])
    assert found["off_s"] == [0.01]


@pytest.mark.parametrize(
    ("module", "option"),
    [
        *((one, "--json") for one in WITH_A_FILE),
        *((one, "--svg") for one in (autoscale, growth, handoff, handoff_report, latency, source)),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_file_that_cannot_be_written_is_refused_before_it_is_measured(
    module: Any, option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for file in (tmp_path, tmp_path / "file" / "x.json"):
        monkeypatch.setattr(sys, "argv", ["benchmark", option, str(file), "--help"])
        with pytest.raises(SystemExit) as refused:
            module.main()
        assert refused.value.code == 2
        assert f"argument {option}: {file} cannot be written: " in capsys.readouterr().err


def test_the_folder_of_a_file_to_be_written_is_made(tmp_path: Path) -> None:
    assert output(str(tmp_path / "a" / "b" / "x.json")) == tmp_path / "a" / "b" / "x.json"
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("module", "option"),
    [
        *(
            (one, "--rounds")
            for one in (growth, handoff, latency, live_page, reads, rebalance, sinks, source, upgrades)
        ),
        *((one, "--partitions") for one in (handoff, pause_predictions, pause_truth, weighted)),
        *((demo, "--runs"), (task_overhead, "--runs"), (pause_predictions, "--moves"), (receiver, "--moves")),
        *((pause_truth, "--pauses"), (live_page, "--updates"), (reads, "--nodes"), (growth, "--each")),
        *((fence, "--commits"), (fence, "--records"), (source, "--records"), (source, "--sizes")),
        *((weighted, "--consumers"), (assignors, "--cell")),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_nothing_is_measured_less_than_once(
    module: Any, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("-1", "x"):
        monkeypatch.setattr(sys, "argv", ["benchmark", f"{option}={text}", "--help"])
        with pytest.raises(SystemExit) as refused:
            module.main()
        assert refused.value.code == 2
        assert f"argument {option}: '{text}': give " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--kafka", "--topic"])
def test_a_load_is_recorded_from_a_topic_of_a_named_broker(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["record_load", option, "orders"])
    monkeypatch.setattr(record_load, "EmbeddedKafka", lambda _: pytest.fail("it starts a broker"))
    monkeypatch.setattr(record_load, "recorded", lambda *_: pytest.fail("it records"))
    with pytest.raises(SystemExit):
        record_load.main()
    assert "give --kafka and --topic together" in capsys.readouterr().err


def scaled(monkeypatch: pytest.MonkeyPatch, file: Path, commit: str, *options: str) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", ["scale", "--parts", "rolling restart", "--json", str(file), *options])
    monkeypatch.setattr(scale, "circumstances", lambda: {**MACHINE, "commit": commit})
    monkeypatch.setattr(scale, "Stopwatch", lambda: None)
    monkeypatch.setattr(scale, "measured", lambda *_: {"load": 0.5, "changes": []})
    scale.main()
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def test_a_file_of_another_commit_is_shown_and_gets_no_further_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scale.json"
    first = scaled(monkeypatch, file, "abc", "--sizes", "1x2")
    again = scaled(monkeypatch, file, "abc", "--sizes", "1x2", "3x4")
    assert (list(first["packed"]), list(again["packed"])) == (["1x2"], ["1x2", "3x4"])
    assert scaled(monkeypatch, file, "def", "--sizes", "3x4") == again
    assert "commit abc" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="is of commit abc, and this is def; give another file with --json"):
        scaled(monkeypatch, file, "def", "--sizes", "5x6")


def test_a_size_that_is_none_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        scaled(monkeypatch, tmp_path / "scale.json", "abc", "--sizes", "10x100", "10")
    assert "'10': name consumers and partitions, such as 10x1000" in capsys.readouterr().err


def pauses(share: float) -> Mapping[str, Any]:
    said = dict.fromkeys(("judged", "inside", "below", "above"), 50)
    times = {f"{name}_ms_median": 1463.0 for name in ("pause", "interval", "off")}
    loads = {"load_least": 0.5, "load_median": 1.0, "load_most": 2.0}
    machine = {name: value for name, value in MACHINE.items() if not name.startswith("load")}
    asked = {"partitions": 12, "per_second": 50.0}
    return {"circumstances": machine, "asked": asked, "summary": {**said, **times, **loads, "share": share}}


def test_predicted_pauses_of_a_quiet_and_a_busy_machine_are_rows_of_one_table() -> None:
    line = (
        "Load 0.5, 1.0, 2.0: 12 partitions with 50 records/s each, 2 cores (a processor), 24 GiB; measured on "
        "2026-11-01 at commit abc."
    )
    both = rows(pause_predictions.markdown(pauses(0.8), pauses(0.648)), f"{line} {line}")
    assert [row[-1] for row in both] == ["met: ≥ 80 % inside", "**missed**: ≥ 80 % inside"]
    (busy,) = rows(pause_predictions.markdown(None, pauses(0.648)), line)
    assert busy[:3] == ["0.5, 1.0, 2.0", "50", "50 (65 %)"]


def test_policies_of_growth_are_a_simulation_whatever_the_machine() -> None:
    cells = [{"load": "spike", "policy": "ours", "lag_s_median": 0.0, "moves": 120}]
    made = autoscale.markdown({"constants": {"hours": 6}, "cells": cells})
    said = "6 simulated hours each; its day and commit were not noted."
    assert rows(made, said) == [["spike", "ours", "0.0", "120"]]


def test_a_place_without_its_result_keeps_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> str:
        return "" if second is None else f"{first} {second['n']}"

    text = "<!-- x: begin -->\nold\n<!-- x: end -->"
    monkeypatch.setattr(headline, "RESULTS", tmp_path)
    monkeypatch.setattr(headline, "PLACES", [Place(FURTHER, "x", ("one", "two"), made)])
    assert tables({FURTHER: text}) == {FURTHER: text}
    (tmp_path / "one.json").write_text('{"n": 1}')
    assert tables({FURTHER: text}) == {FURTHER: text}, "nothing is made of it"
    (tmp_path / "one.json").unlink()
    (tmp_path / "two.json").write_text('{"n": 2}')
    assert tables({FURTHER: text}) == {FURTHER: text.replace("old", "None 2")}


def test_a_large_live_page_says_which_of_its_targets_it_meets() -> None:
    took = {"first paint": [150.0, 170.2], "data shown": [300.0, 310.0], "update": [20.0, 90.0]}
    result = {
        **MACHINE,
        "rounds": 2,
        "updates": 1,
        "milliseconds": {**took, "main thread": [70.0, 80.0], "longest task": [0.0, 201.0]},
    }
    first, *rows = live_page.markdown(result).splitlines()
    assert first == f"2 rounds of 1 update, answers made up, headless Chromium, {SAID}"
    assert rows[3] == "| from the address to the first paint | 160 | 170 | met: below 1,000 ms |"
    assert rows[5] == "| an update of page and tables | 55 | 90 | – |"
    assert rows[-1] == "| the longest task of a round's updates | 100 | 201 | **missed**: below 200 ms |"
