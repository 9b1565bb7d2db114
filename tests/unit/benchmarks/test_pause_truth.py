"""The benchmark that compares the history's pauses with the sinks' rows: which stall belongs to a pause, and what it sums up."""

import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from benchmarks import pause_truth
from benchmarks.pause_truth import CLOCKS, Compared, compared, markdown, summed_up
from coordinator_tasks.core.model import Actor, Move, MoveKind, Pause, Pauses, Record, State
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.processes import Guard
from coordinator_tasks.devstack.embedded.reaper import MARK_VARIABLE
from coordinator_tasks.wiring import Settings

ROOT = Path(__file__).parents[3]


def row(consumer: str, epoch: int, offset: int, produced_at: float, processed_at: float) -> Row:
    return Row(consumer, 0, epoch, 0, offset, 0, produced_at, processed_at)


ROWS = [
    row("a", 3, 0, 10.00, 10.01),
    row("a", 3, 1, 10.10, 10.11),
    row("b", 7, 2, 10.20, 10.60),  # it waited for the hand-off
    row("b", 7, 3, 10.30, 10.60),
    row("b", 7, 4, 10.70, 11.90),  # a later stall of the taker, which is longer
]


def records(pause: Pause | None, epoch: int = 7) -> list[Record]:
    by = Actor("loop")
    moves = (Move(0, "a", "b", MoveKind.HANDOFF),)
    planned = Record("t", State.STABLE, State.CLOSING, epoch, "g", "r", "joined", by, 0.0, 0.0, 0.0, moves)
    found = Pauses((pause,)) if pause is not None else None
    return [planned, Record("t", State.STARTING, State.STABLE, 9, "g", "r", "", by, 0.0, 0.0, 0.0, pauses=found)]


def test_the_stall_of_a_pause_is_the_one_that_ends_with_the_takers_first_row() -> None:
    (one,) = compared(records(Pause(0, wait_s=0.41, error_s=0.002, records=2)), ROWS)
    assert one.stall_s == pytest.approx(0.40), "from the record that waited longest"
    assert one.off_s == pytest.approx(0.01)
    assert one.row == {
        "partition": 0,
        "pause_ms": 410.0,
        "stated_error_ms": 2.0,
        "rows_ms": 400.0,
        "off_ms": 10.0,
        "records": 2,
    }


@pytest.mark.parametrize("pause", [None, Pause(0), Pause(0, wait_s=1.0, least=True)])
def test_what_only_one_side_knows_is_not_compared(pause: Pause | None) -> None:
    assert compared(records(pause), ROWS) == []


def test_a_taker_without_rows_of_the_plan_is_not_compared() -> None:
    assert compared(records(Pause(0, wait_s=0.41), epoch=8), ROWS) == []


def test_a_consumer_carries_its_owners_mark_so_that_it_does_not_outlive_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"import os, sys; open(sys.argv[-1], 'w').write(os.environ.get('{MARK_VARIABLE}', ''))"
    monkeypatch.setattr(pause_truth, "SHIFTED", script)
    one = pause_truth.Plain(Settings("truth", "zookeeper:2181", {"bootstrap.servers": "kafka:9092"}), "a", tmp_path)
    assert one.process.wait(60) == 0
    assert Guard.current().mark in one.rows.read_text().split(",")


def found(*offs_ms: float) -> list[Compared]:
    return [Compared("r", 0, 0.1 + off / 1000, 0.005, 0.1, 4) for off in offs_ms]


def test_too_long_and_too_short_count_alike() -> None:
    said = summed_up("one clock", found(-4, 2, 8, -20), [1.0, 3.0])
    assert (said["error_ms_median"], said["error_ms_most"], said["longer_ms_median"]) == (6.0, 20.0, -1.0)
    assert (said["pauses"], said["within_stated"], said["load_median"]) == (4, 0.5, 2.0)


def test_the_table_says_which_clocks_miss_the_target() -> None:
    summary = [summed_up(name, found(*errors), [1.0]) for name, errors in zip(CLOCKS, ((1, 2), (9, 12)), strict=True)]
    where = {"measured_on": "2026-11-25", "cores": 2, "commit": "abc"}
    made = markdown({"circumstances": where, "asked": {"partitions": 12, "per_second": 100.0}, "summary": summary})
    head, _, titles, _, *rows = made.splitlines()
    assert head == "12 partitions with 100 records/s each, 2 cores; measured on 2026-11-25 at commit abc."
    assert titles.endswith("| target |")
    assert [one.split(" | ")[-1] for one in rows] == ["met: median < 10 ms |", "**missed**: median < 10 ms |"]
    assert len({one.count("|") for one in (titles, *rows)}) == 1


def test_an_event_that_fails_loses_nothing_that_was_measured_before_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured = iter([found(-4, 2, 8), found(1)])
    for name in ("open_coordinator", "looping", "traffic"):
        monkeypatch.setattr(pause_truth, name, lambda *_: nullcontext())
    for name in ("ConfluentKafkaAdmin", "topics", "history", "Plain", "until"):
        monkeypatch.setattr(pause_truth, name, MagicMock())
    monkeypatch.setattr(pause_truth, "served", lambda _: nullcontext((tmp_path, "zk:2181", "kafka:9092")))
    monkeypatch.setattr(pause_truth, "_rest", MagicMock(side_effect=TimeoutError("two share: not within 120 s")))
    monkeypatch.setattr(pause_truth, "compared", lambda *_: next(measured))
    file = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["pause_truth", "--json", str(file)])
    with pytest.raises(SystemExit, match="ended early: one clock: two share: not within 120 s; clocks that differ"):
        pause_truth.main()
    kept = json.loads(file.read_text())
    assert [one["clocks"] for one in kept["pauses"]] == ["one clock"] * 3 + ["clocks that differ by 14 minutes"]
    assert [one["clocks"] for one in kept["summary"]] == ["one clock"], "one pause cannot be summed up"
    assert len(kept["failed"]) == 2


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks/results").glob("pause_truth*.json")), ids=lambda f: f.stem)
def test_the_result_that_is_kept_sums_up_its_own_rows(file: Path) -> None:
    kept = json.loads(file.read_text())
    for said in kept["summary"]:
        errors = sorted(abs(one["off_ms"]) for one in kept["pauses"] if one["clocks"] == said["clocks"])
        assert len(errors) == said["pauses"] >= 100
        middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
        assert said["error_ms_median"] == pytest.approx(middle, abs=0.11), "the rows are rounded"
    assert [one["clocks"] for one in kept["summary"]] == list(CLOCKS)
