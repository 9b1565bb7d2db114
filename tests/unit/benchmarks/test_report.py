"""From the runs of the hand-off benchmark to its summary, its targets and the README's table."""

from typing import Any

import pytest

from benchmarks.handoff_summary import joined, judged, quartiles, summary, targets


def run(
    contender: str, kind: str, moved: list[list[float | None]], unmoved: list[list[float | None]]
) -> dict[str, Any]:
    counts = {"moves": len(moved), "needless": 0, "lost": 0, "duplicated": 1, "settled_s": 2.0}
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


def test_what_several_calls_have_measured_is_judged_as_one() -> None:
    first, later = ({**CALL, "load_after": 1.25}, {**CALL, "commit": "cafe", "took_s": 5})
    files = (
        {**first, "rounds": 1, "runs": [{"round": 0, **one} for one in RUNS[:2]]},
        {**later, "rounds": 2, "runs": [{"round": n, **one} for n, one in enumerate(RUNS[2:])]},
    )
    whole = judged(*files)
    assert whole["summary"] == summary(RUNS)
    assert whole["targets"] == targets(summary(RUNS))
    assert whole["calls"] == [
        {**first, "rounds": 1, "contenders": ["eager", "ours"], "kinds": ["join"]},
        {**later, "rounds": 2, "contenders": ["ours"], "kinds": ["join", "crash"]},
    ]
    assert not whole.keys() & CALL.keys(), "each call has its own"
    assert judged(joined(files)) == whole, "what is kept is what was joined"


@pytest.mark.parametrize(("name", "value"), [("airflow", True), ("per_second", 200.0), ("batch_interval_s", 0.2)])
def test_results_that_were_measured_in_different_ways_are_not_joined(name: str, value: object) -> None:
    one = {**CALL, "airflow": False, "per_second": 20.0, "batch_interval_s": 0.5, "runs": []}
    with pytest.raises(SystemExit, match=f"these differ in {name}: "):
        joined([one, {**one, name: value}])


def test_a_run_that_is_in_two_of_the_files_is_refused() -> None:
    one = {**CALL, "runs": [{"round": 0, **RUNS[0]}]}
    with pytest.raises(SystemExit, match="1 run is in more than one of these files"):
        joined([one, {**CALL, "runs": [{"round": 0, **RUNS[0]}, {"round": 0, **RUNS[1]}]}])
