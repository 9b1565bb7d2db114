"""What the benchmark of predicted pauses counts, and what the page says of its results."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from benchmarks import pause_predictions
from benchmarks.pause_predictions import Moved, summed_up
from coordinator_tasks.core.machine.what_if import Change
from coordinator_tasks.core.measure.pause_prediction import Interval, Prediction

ROOT = Path(__file__).parents[3]
SAID = Prediction(Interval(0.1, 0.05, 0.2), 9)


def moved(pause_s: float | None, said: Prediction | None = SAID) -> Moved:
    return Moved("join", 0, said, pause_s, 0.01, 1.0)


def test_only_moves_with_a_prediction_and_a_pause_are_judged() -> None:
    found = summed_up([moved(0.05), moved(0.2), moved(0.21), moved(0.04), moved(None), moved(0.1, None)])
    assert (found["measured"], found["nothing_waited"], found["judged"]) == (6, 1, 4)
    assert (found["inside"], found["below"], found["above"], found["share"]) == (2, 1, 1, 0.5)


def test_a_row_has_milliseconds_and_nothing_where_nothing_is_known() -> None:
    assert moved(0.0961).row["pause_ms"] == 96.1
    row = moved(None, None).row
    assert (row["pause_ms"], row["median_ms"], row["learned_from"]) == (None, None, 0)


@pytest.mark.parametrize("before", [3, 0])
def test_an_event_that_fails_loses_nothing_that_was_measured_before_it(
    before: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def events() -> Iterator[list[Moved]]:
        yield from [[moved(0.1)]] * before
        raise TimeoutError("two consumers share the topic: not within 120 s")

    def tried(_: object, change: Change, act: Callable[[], object], __: int) -> list[Moved]:
        if change.join:
            act()
        return next(happens)

    happens = events()
    for name in ("open_coordinator", "looping", "traffic"):
        monkeypatch.setattr(pause_predictions, name, lambda *_: nullcontext())
    for name in ("ConfluentKafkaAdmin", "topics", "Consumer", "until"):
        monkeypatch.setattr(pause_predictions, name, MagicMock())
    monkeypatch.setattr(pause_predictions, "served", lambda _: nullcontext((tmp_path, "zk:2181", "kafka:9092")))
    monkeypatch.setattr(pause_predictions, "tried", tried)
    file = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["pause_predictions", "--json", str(file)])
    with pytest.raises(SystemExit, match="ended early: two consumers share the topic: not within 120 s"):
        pause_predictions.main()
    kept = json.loads(file.read_text())
    assert len(kept["moves"]) == before
    assert kept["summary"].get("judged", 0) == before
    assert kept["failed"] == ["two consumers share the topic: not within 120 s"]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "benchmarks/results").glob("pause_predictions*.json")), ids=lambda f: f.stem
)
def test_the_page_shows_the_results_that_are_kept(file: Path) -> None:
    kept = json.loads(file.read_text())
    said, rows = kept["summary"], kept["moves"]
    judged = [one for one in rows if one["low_ms"] is not None and one["pause_ms"] is not None]
    inside = [one for one in judged if one["low_ms"] <= one["pause_ms"] <= one["high_ms"]]
    assert len(judged) == said["judged"] >= 200
    assert abs(len(inside) - said["inside"]) <= 1, "the rows are rounded"
    page = (ROOT / "benchmarks/results/README.md").read_text()
    assert f"| {said['judged']} | {said['inside']} ({said['share']:.0%}".replace("%", " %") in page
