"""Writes the tables of the results in `benchmarks/results` into README.md, the pages of `docs` and `benchmarks/results/README.md`."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    autoscale,
    dag_parsing,
    demo,
    figures,
    lakehouse,
    latency,
    pause_predictions,
    pipeline,
    rebalance,
    scale_simulated,
    sinks,
    source,
    state,
    weighted,
)
from benchmarks.circumstances import PROJECT
from benchmarks.handoff_report import compared, in_full, one_number

README, MEASUREMENTS = PROJECT / "README.md", PROJECT / "docs" / "measurements.md"
RESULTS = PROJECT / "benchmarks" / "results"
FURTHER = RESULTS / "README.md"
HAND_OFF_RESULTS = ("handoff", "handoff-spark", "handoff-airflow", "handoff-spark-airflow")
PLACES: Sequence[tuple[Path, str, Sequence[str], Callable[..., str]]] = (
    (FURTHER, "demo", ("demo",), demo.markdown),
    (README, "hand-offs", ("handoff",), one_number),
    (FURTHER, "hand-offs, compared", HAND_OFF_RESULTS, compared),
    (FURTHER, "hand-offs at 200 records/s", ("handoff-often",), compared),
    (FURTHER, "hand-offs", ("handoff",), in_full),
    (FURTHER, "hand-offs under Airflow", ("handoff-airflow",), in_full),
    (FURTHER, "hand-offs of Spark applications", ("handoff-spark",), in_full),
    (FURTHER, "hand-offs of Spark applications under Airflow", ("handoff-spark-airflow",), in_full),
    (FURTHER, "hand-offs, 192 partitions", ("handoff-192",), in_full),
    (FURTHER, "rebalance", ("rebalance",), rebalance.markdown),
    (FURTHER, "source", ("source",), source.markdown),
    (FURTHER, "latency", ("latency",), latency.markdown),
    (FURTHER, "latency, small", ("latency-small",), latency.markdown),
    (FURTHER, "idle", ("idle",), latency.idle_markdown),
    (FURTHER, "scale, the same simulated", ("scale-topics-simulated",), scale_simulated.markdown),
    (FURTHER, "scale, simulated", ("scale-simulated",), scale_simulated.markdown),
    (FURTHER, "DAGs", ("dag_parsing",), dag_parsing.markdown),
    (FURTHER, "weighted", ("weighted",), weighted.markdown),
    (FURTHER, "predicted pauses", ("pause_predictions", "pause_predictions_busy"), pause_predictions.markdown),
    (FURTHER, "growth policies", ("autoscale",), autoscale.markdown),
    (FURTHER, "sinks", ("sinks",), sinks.markdown),
    (FURTHER, "lakehouse", ("lakehouse",), lakehouse.markdown),
    (FURTHER, "a whole pipeline", ("pipeline",), pipeline.markdown),
    (FURTHER, "state", ("state",), state.markdown),
)
"""Page, the name of the table's place, results, and the function that makes the table from the results."""


def split(text: str, place: str) -> tuple[str, str, str]:
    """Return the text up to this place's marker, the table, and the rest. Raises `SystemExit` without the markers."""
    first, last = f"<!-- {place}: begin -->\n", f"\n<!-- {place}: end -->"
    before, begin, rest = text.partition(first)
    table, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"there is no place for the table: put the lines {first}{last} where it belongs")
    return before + begin, table, end + after


def main() -> None:
    texts = {file: file.read_text() for file in (README, MEASUREMENTS, FURTHER)}

    def place(file: Path, name: str, made: str) -> None:
        before, _, after = split(texts[file], name)
        texts[file] = f"{before}{made}{after}"

    for file, name, results, make in PLACES:
        place(file, name, make(*(json.loads((RESULTS / f"{one}.json").read_text()) for one in results)))
    place(MEASUREMENTS, "figures", figures.markdown(lambda name: split(texts[FURTHER], name)[1]))
    for file, text in texts.items():
        file.write_text(text)


if __name__ == "__main__":
    main()
