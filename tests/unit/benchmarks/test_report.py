"""From the runs of the hand-off benchmark to its summary, its targets and the README's table."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, handoff, handoff_report
from benchmarks.handoff import Asked
from benchmarks.handoff_report import difference, joined, measured, quartiles, summary, targets
from benchmarks.headline import (
    PLACES,
    Place,
    details,
    in_full,
    one_number,
    pages,
    placed,
    table,
    tables,
)
from benchmarks.result import report


def run(
    contender: str, kind: str, moved: list[list[float | None]], unmoved: list[list[float | None]]
) -> dict[str, Any]:
    counts = {
        "moves": len(moved),
        "needless": 0,
        "lost": 0,
        "duplicated": 1,
        "settled_s": 2.0,
        "own_cores": 1.0,
        "busy": 0.5,
    }
    stalls = {"moved_ms": moved, "unmoved_ms": unmoved, "waited_ms": moved}
    return {"partitions": 48, "kind": kind, "contender": contender, **stalls, **counts}


CALL = {"measured_on": "2026-11-25", "commit": "c0ffee", "load_before": 0.5, "load_after": 1.0, "took_s": 10}
RUNS = [
    run("eager", "join", [[3050.0, 50.0]], [[3000.0, 60.0], [2950.0, 50.0]]),
    run("ours", "join", [[60.0, 30.0], [90.0, 30.0]], [[30.0, 31.0]]),
    run("ours", "join", [[330.0, 30.0]], [[30.0, 30.0]]),
    run("ours", "crash", [[None, 30.0]], [[30.0, 30.0]]),
]


def test_the_control_is_subtracted_partition_by_partition_and_an_event_counts_once() -> None:
    eager, ours, _ = summary(RUNS)
    assert eager["unmoved"] == {"n": 1, "median": 2920.0, "low": 2920.0, "high": 2920.0, "worst": 2940.0}
    assert ours["moved"] == {"n": 2, "median": 172.5, "low": 45.0, "high": 300.0, "worst": 300.0}
    assert ours["waited"] == ours["moved"]
    assert (ours["runs"], ours["moves"], ours["duplicated"]) == (2, 3, 2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7], (7, 7, 7)), ([2, 1], (1, 1.5, 2)), ([1, 2, 3], (1.5, 2, 2.5)), ([4, 1, 3, 2], (1.5, 2.5, 3.5))],
)
def test_quartiles_are_the_medians_of_the_halves(values: list[float], expected: tuple[float, float, float]) -> None:
    assert quartiles(values) == expected


def test_a_file_keeps_what_was_measured_a_line_for_each_event(tmp_path: Path) -> None:
    result = {"rounds": 2, "sessions_s": {"ours": 4.0}, "runs": RUNS, "summary": summary(RUNS), "targets": []}
    report(measured(result), lambda _: None, tmp_path / "result.json")
    kept = (tmp_path / "result.json").read_text()
    assert json.loads(kept) == {"rounds": 2, "sessions_s": {"ours": 4.0}, "runs": RUNS}
    assert len(kept.splitlines()) == len(RUNS) + 6


def test_two_results_stand_side_by_side_where_both_have_measured() -> None:
    before, after = (
        {"summary": summary(runs), "per_second": 20.0}
        for runs in ([run("ours", "join", [[130.0, 30.0]], [])], [*RUNS[:2], run("eager", "leave", [[1.0, 1.0]], [])])
    )
    shown = difference(before, after)
    assert [list(column.cells) for column in shown.columns] == [
        ["48 partitions, join: ours"],
        ["100 (100)"],
        ["1"],
        ["< tick (< tick)"],
        ["1"],
    ]


def test_targets_judge_ours_alone_and_a_stall_without_end_misses() -> None:
    found = {(one["kind"], one["what"]): one["met"] for one in targets(summary(RUNS))}
    assert found == {
        ("join", "moved median"): False,
        ("join", "moved worst"): False,
        ("join", "unmoved median"): True,
        ("join", "unmoved worst"): True,
        ("crash", "moved median"): False,
        ("crash", "moved worst"): False,
        ("crash", "unmoved median"): True,
        ("crash", "unmoved worst"): True,
    }


@pytest.mark.parametrize(
    ("contender", "kind", "airflow", "limit_ms"),
    [
        ("ours", "crash", False, 400.0),
        ("spark", "crash", True, 1800.0),
        ("ours", "silent", False, 5000.0),
        ("spark", "silent", True, 7000.0),
        ("ours-fenced", "silent", False, 5000.0),
        ("ours", "gone", False, 15_000.0),
        ("ours-fenced", "gone", False, 6000.0),
    ],
)
def test_a_death_has_a_target_by_how_it_becomes_known(
    contender: str, kind: str, airflow: bool, limit_ms: float
) -> None:
    cells = summary([run(contender, kind, [[limit_ms + 30.0, 30.0], [limit_ms + 32.0, 30.0]], [[30.0, 30.0]])])
    judged = {one["what"]: (one["limit_ms"], one["met"]) for one in targets(cells, airflow=airflow)}
    assert (judged["moved median"], judged["moved worst"]) == ((limit_ms, False), (limit_ms, False))
    assert judged["unmoved median"][1]
    met = targets(summary([run(contender, kind, [[limit_ms + 30.0, 30.0]], [])]), airflow=airflow)
    assert [one["met"] for one in met] == [True, True]


@pytest.mark.parametrize("contender", ["ours", "ours-fenced", "ours-ensemble"])
def test_a_hand_off_has_the_same_target_with_every_fence_and_every_ensemble(contender: str) -> None:
    cells = summary([run(contender, "join", [[230.0, 30.0], [231.0, 30.0]], [[30.0, 30.0]])])
    found = [(one["what"], one["limit_ms"], one["met"]) for one in targets(cells)]
    assert found[:2] == [("moved median", 50.0, False), ("moved worst", 200.0, False)]


def test_the_details_name_a_death_that_nobody_reports() -> None:
    silent = summary([run("ours", "silent", [[32_000.0, 30.0]], [[30.0, 30.0]])])
    assert "| kill -9 that nobody reports: ours, plain clients | 1 | 31,970 " in details(
        {"summary": silent, "targets": [], "per_second": 20.0}, 48
    )


def test_what_several_calls_have_measured_is_judged_as_one() -> None:
    first, later = ({**CALL, "load_after": 1.25}, {**CALL, "commit": "cafe", "took_s": 5})
    whole = joined(
        [
            {**first, "rounds": 1, "runs": [{"round": 0, **one} for one in RUNS[:2]]},
            {**later, "rounds": 2, "runs": [{"round": n, **one} for n, one in enumerate(RUNS[2:])]},
        ]
    )
    assert whole["summary"] == summary(RUNS)
    assert whole["targets"] == targets(summary(RUNS))
    assert whole["calls"] == [
        {**first, "rounds": 1, "contenders": ["eager", "ours"], "kinds": ["join"]},
        {**later, "rounds": 2, "contenders": ["ours"], "kinds": ["join", "crash"]},
    ]
    assert not whole.keys() & CALL.keys(), "each call has its own"
    assert joined([measured(whole)]) == whole, "what is kept is what was joined"


def test_results_of_different_machines_are_not_joined() -> None:
    one = {**CALL, "processor": "a processor", "cores": 2, "memory_gib": 24, "runs": []}
    with pytest.raises(SystemExit, match="different machines: 2, a processor, 24; 2, another, 24"):
        joined([one, {**one, "processor": "another"}])


@pytest.mark.parametrize(("name", "value"), [("airflow", True), ("per_second", 200.0), ("batch_interval_s", 0.2)])
def test_results_that_were_measured_in_different_ways_are_not_joined(name: str, value: object) -> None:
    one = {**CALL, "airflow": False, "per_second": 20.0, "batch_interval_s": 0.5, "runs": []}
    with pytest.raises(SystemExit, match=f"these differ in {name}: "):
        joined([one, {**one, name: value}])


def test_a_run_that_is_in_two_of_the_files_is_refused() -> None:
    one = {**CALL, "runs": [{"round": 0, **RUNS[0]}]}
    with pytest.raises(SystemExit, match="1 run is in more than one of these files"):
        joined([one, {**CALL, "runs": [{"round": 0, **RUNS[0]}, {"round": 0, **RUNS[1]}]}])


def test_the_table_says_the_same_of_the_same_runs() -> None:
    kafka = run("eager", "crash", [[11_050.0, 50.0]], [[50.0, 50.0]])
    cells = summary([*RUNS, kafka])
    result: dict[str, Any] = {
        "summary": cells,
        "targets": targets(cells),
        "calls": [
            {**CALL, "rounds": 1, "contenders": ["eager", "ours"], "kinds": ["join", "crash"]},
            {
                **CALL,
                "measured_on": "2026-11-26",
                "commit": "cafe",
                "rounds": 6,
                "contenders": ["ours"],
                "kinds": ["silent"],
            },
        ],
        "cores": 2,
        "per_second": 20.0,
        "processor": "a processor",
        "memory_gib": 24,
    }
    under = summary([run("ours", "silent", [[18_030.0, 30.0]], [])])
    airflow = {**result, "summary": under, "targets": targets(under, airflow=True), "airflow": True, "sessions_s": {}}
    made = table([{**result, "sessions_s": {"eager": 10.0, "ours": 4.0}}, airflow], 48)
    assert "The plain loop ran our transitions" in made
    assert "a record every 50 ms (the tick)" in made
    assert made.splitlines()[0].endswith(
        "Measured from 2026-11-25 to 2026-11-26 in 4 calls; commit and load of each stand in the full tables."
    )
    assert made.splitlines()[2:] == [
        "|  | events of each kind, at least | usual | join | clean leave | rolling restart | kill -9, reported by the launcher "
        "| kill -9 that nobody reports | a host that is gone | partitions that stay, at worst | target |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        "| eager `range` | 1 | 50 (60) | 3,000 (3,000) | – | – | 11,000 (11,000) | 11,000 (11,000) | 11,000 (11,000) | 2,940 | – |",
        "| ours, plain clients | 1 | 30 (31) | 172 (300) | – | – | ∞ (∞) | – | – | < tick "
        "| **missed**: join (moved median, moved worst), kill -9 (moved median, moved worst) |",
        "| ours, plain clients, under Airflow | 1 | 30 (30) | – | – | – | – | 18,000 (18,000) | – | – "
        "| **missed**: kill -9 that nobody reports (moved median, moved worst) |",
        "",
        "Sessions, after which a dead consumer is missed: 4 s: ours, plain clients. 10 s: eager `range`.",
    ]
    once = table([{**result, "calls": result["calls"][:1], "sessions_s": {}}], 48)
    assert once.splitlines()[0].endswith("Measured on 2026-11-25 at commit c0ffee, load 0.5 to 1.0.")
    assert once.endswith("\n\nNobody was killed in these runs.")


def test_a_row_of_another_machine_names_it_and_one_of_spark_its_batches() -> None:
    machine = {"cores": 2, "per_second": 20.0, "processor": "a processor", "memory_gib": 24}
    first = {**machine, "calls": [CALL], "sessions_s": {}, **_judged(run("ours", "join", [[90.0, 30.0]], []))}
    others = {"processor": "another", "memory_gib": 16, "batch_interval_s": 0.5}
    spark = {**first, **others, **_judged(run("spark", "join", [[95.0, 30.0]], []))}
    same = {**first, "airflow": True}
    heading, _, _, _, *rows = table([first, spark, same, {**spark, "airflow": True}], 48).splitlines()
    assert "Rows that name a processor were measured on another machine: 2 cores (another), 16 GiB. " in heading
    assert [row.split(" | ")[0] for row in rows[:-2]] == [
        "| ours, plain clients",
        "| ours, Spark applications, a batch every 0.5 s, on another",
        "| ours, plain clients, under Airflow",
        "| ours, Spark applications, a batch every 0.5 s, under Airflow, on another",
    ]
    assert "another machine" not in table([first, same], 48)


def test_a_death_that_stands_for_others_counts_once_in_the_undisturbed_stall() -> None:
    runs = [run("eager", kind, [[90.0, quiet]], []) for kind, quiet in (("join", 20.0), ("crash", 40.0))]
    machine = {"cores": 2, "per_second": 20.0, "processor": "a processor", "memory_gib": 24}
    made = table([{**machine, "calls": [CALL], "sessions_s": {}, **_judged(*runs)}], 48)
    assert "| eager `range` | 1 | 30 (40) | 70 (70) | – | – | 50 (50) | 50 (50) | 50 (50) |" in made


def _judged(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary(runs), "targets": targets(summary(runs))}


def test_the_full_tables_begin_with_their_calls() -> None:
    calls = [
        {**CALL, "rounds": 1, "contenders": ["eager", "ours"], "kinds": ["join", "crash"]},
        {**CALL, "commit": "cafe", "rounds": 6, "contenders": ["ours"], "kinds": ["silent"]},
    ]
    machine = {"cores": 2, "per_second": 20.0, "processor": "a processor", "memory_gib": 24}
    assert in_full({**machine, "runs": RUNS, "calls": calls}).splitlines()[:6] == [
        "2 cores (a processor), 24 GiB, a record every 50 ms (the tick).",
        "",
        "| events | rounds | of | on | commit | load before | after |",
        "|---|--:|---|---|---|--:|--:|",
        "| join, kill -9 | 1 | eager `range`; ours, plain clients | 2026-11-25 | c0ffee | 0.5 | 1.0 |",
        "| kill -9 that nobody reports | 6 | ours, plain clients | 2026-11-25 | cafe | 0.5 | 1.0 |",
    ]


def test_the_readme_shows_the_pause_of_a_join_beside_two_of_kafkas_protocols() -> None:
    runs = [run(one, "join", [[90.0, 30.0]], []) for one in ("kip848-1s", "cooperative-quick", "ours")]
    found = {"summary": [{**cell, "partitions": 12} for cell in summary(runs)], "per_second": 20.0}
    made = one_number([{**found, "cores": 2, "processor": "one", "memory_gib": 24}])
    assert made == (
        "A plain consumer joins: the median (worst) extra pause of a moved partition is 60 (60) ms in the plain loop, beside 60 (60) ms with "
        "KIP-848, heartbeat 1 s and 60 (60) ms with `cooperative-sticky`, heartbeat 0.5 s. *< tick*: less than the 50 ms between two "
        "records. 12 partitions, 2 cores (one), 24 GiB."
    )
    assert one_number([{**found, "summary": []}]) == ""


def test_the_details_name_every_figure_and_the_targets_that_are_missed() -> None:
    result = {"summary": summary(RUNS[:2]), "targets": targets(summary(RUNS[:2])), "per_second": 20.0}
    assert details(result, 48).splitlines() == [
        "| 48 partitions | events | moved | quartiles | worst | sum | others | quartiles | worst | control | worst "
        "| stall | worst | moves | needless | lost | doubled | settled s | target |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        "| join: eager `range` | 1 | 3,000 | 3,000 | 3,000 | 3,000 | 2,920 | 2,920 | 2,940 | 50 | 60 | 3,050 | 3,050 "
        "| 1 | 0 | 0 | 1 | 2.0 | – |",
        "| join: ours, plain clients | 1 | < tick | < tick | 60 | < tick | < tick | < tick | < tick | 30 | 31 | 75 | 90 "
        "| 2 | 0 | 0 | 1 | 2.0 | met |",
        "",
        "4 of 4 targets are met; missed: none.",
    ]


def test_a_row_says_which_of_its_targets_it_misses() -> None:
    cells = summary([run("ours", "join", [[90.0, 30.0], [430.0, 30.0]], [[100.0, 30.0]])])
    row = details({"summary": cells, "targets": targets(cells), "per_second": 20.0}, 48).splitlines()[2]
    assert row.endswith("| **missed**: moved median 50, moved worst 200, others median 10, others worst 50 |")


@pytest.mark.parametrize("place", PLACES, ids=lambda one: f"{one.file.name}: {one.name}")
def test_there_is_one_place_for_a_table_and_nothing_else_changes(place: Place) -> None:
    text, begin, end = place.file.read_text(), f"<!-- {place.name}: begin -->", f"<!-- {place.name}: end -->"
    assert (text.count(begin), text.count(end)) == (1, 1)
    once = placed(text, "new", place.name)
    assert placed(once, "new", place.name) == once
    assert once.partition(begin)[0] == text.partition(begin)[0]
    assert once.partition(end)[2] == text.partition(end)[2]
    with pytest.raises(SystemExit, match="no place for the table"):
        placed("nothing", "new", place.name)


def test_the_tables_are_those_of_the_results_that_are_kept() -> None:
    assert tables(pages()) == pages(), "run python -m benchmarks.headline"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "ours-fenced,ours"], "measure ours-fenced in a call of its own"),
        (["--only", "ours-ensemble"], "leave ours-ensemble out with --airflow"),
    ],
)
def test_who_cannot_be_measured_under_airflow_is_refused_at_once(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["handoff", "--airflow", *options])
    monkeypatch.setattr(handoff, "measure", lambda _: pytest.fail("it measures"))
    with pytest.raises(SystemExit):
        handoff.main()
    assert said in capsys.readouterr().err


def test_a_file_that_has_runs_is_not_measured_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ours.json"
    file.write_text("{}")
    monkeypatch.setattr(sys, "argv", ["handoff", "--only", "ours", "--json", str(file)])
    monkeypatch.setattr(handoff, "measure", lambda _: pytest.fail("it measures"))
    with pytest.raises(SystemExit):
        handoff.main()
    assert f"{file} has a result already; name another file, or remove it" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "", "[]", '{"cells": []}'])
def test_a_file_that_is_no_result_of_hand_offs_is_named(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ours.json"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["handoff_report", str(file)])
    with pytest.raises(SystemExit):
        handoff_report.main()
    assert f"{file} is no result of benchmarks.handoff: " in capsys.readouterr().err


class Rounds:
    """Runs one round; the next one ends like this."""

    def __init__(self, ending: BaseException) -> None:
        self.left, self.ending = [[RUNS[1]]], ending

    def round(self, *_: object) -> list[dict[str, Any]]:
        if not self.left:
            raise self.ending
        return self.left.pop()


@pytest.mark.parametrize(
    ("ending", "said"), [(SystemExit("not settled within 90 s"), "not settled within 90 s"), (KeyboardInterrupt(), "")]
)
def test_a_round_that_fails_is_told_beside_those_that_did_not(ending: BaseException, said: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    asked = Asked(partitions=(48,), rounds=3, only=("ours",), json=file)
    with pytest.raises(type(ending)):
        handoff.measure_rounds(Rounds(ending), asked, 48, {**CALL, "runs": []})  # type: ignore[arg-type]
    result = {"cores": 2, "processor": "one", "memory_gib": 24, "per_second": 20.0, **json.loads(file.read_text())}
    assert [one["kind"] for one in result["runs"]] == ["join"]
    assert result["ended"] == f"48 partitions, round 2, ours: {said or 'KeyboardInterrupt'}"
    assert "| join | 1, then ended early | ours, plain clients |" in in_full(result)
    assert "calls" not in result
    assert joined([result])["calls"][0]["ended"] == result["ended"]
    heading = table([{**joined([result]), "sessions_s": {}}], 48).splitlines()[0]
    assert heading.endswith("load 0.5 to 1.0; it ended early.")


def test_growth_asks_for_joins_of_ours_alone_as_often_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def measured(one: Asked) -> dict[str, Any]:
        asked.append(one)
        return {"runs": [run("ours", "join", [[60.0, 30.0]], [])]}

    monkeypatch.setattr(growth, "measure", measured)
    assert growth.cell(10, 2)["contender"] == "ours"
    assert asked == [Asked(partitions=(30,), rounds=2, kinds=("join",), only=("ours",), per_second=100.0)]
