"""The figures at the head of `docs/measurements.md`: single cells of the tables in `benchmarks/results/README.md`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.handoff_lanes import FENCED
from benchmarks.handoff_summary import OURS, TITLES
from benchmarks.result import grid

KAFKA = (TITLES["cooperative-quick"], TITLES["kip848-1s"])
TUNED = "Spark's, tuned"


class Figure(NamedTuple):
    """`value` and `beside` are formats of the cells in `columns`, of the row `row` and of the rows `others`.

    `table`: the name of the table's place. A row is named by the beginning of its line; the first such row counts.
    """

    title: str
    table: str
    row: str
    columns: tuple[str, ...]
    value: str
    others: tuple[str, ...] = ()
    target: str = "target"


PAUSE = "{0} ms"
COMPARED = "hand-offs, compared"
BOTH = ("Spark's, as it comes", TUNED)
FIGURES = (
    Figure(
        "stall in the demo: a join, moved partitions, median / worst",
        "demo",
        "join",
        ("total of moved p50 / max, ms",),
        PAUSE,
        target="",
    ),
    Figure("extra pause: a clean leave, median (worst)", COMPARED, TITLES[OURS], ("clean leave",), PAUSE, KAFKA, ""),
    Figure(
        "extra pause: `kill -9`, reported by the launcher",
        COMPARED,
        TITLES[OURS],
        ("kill -9, reported by the launcher",),
        PAUSE,
        KAFKA,
        "",
    ),
    Figure(
        "extra pause: unreported `kill -9`",
        COMPARED,
        TITLES[OURS],
        ("unreported kill -9",),
        PAUSE,
        (TITLES[FENCED], *KAFKA),
    ),
    Figure(
        "under Airflow, a join: to the plan, to Stable",
        "rebalance",
        "Airflow, join",
        ("plan median", "Stable median"),
        "{0} s, {1} s",
        ("plain loop, join",),
    ),
    Figure(
        "1,000 consumers, 10,000 partitions, one joins: to Stable, traffic",
        "scale",
        "1,000 × 10,000 | one joins | packed",
        ("Stable", "MiB"),
        "{0} s, {1} MiB",
        ("1,000 × 10,000 | one joins | plain",),
    ),
    Figure(
        "data source, records of 150 bytes, target in times of Spark's, tuned",
        "source",
        "150 B, 6,000,000 records: ours",
        ("steady, records/s",),
        "{0} records/s",
        BOTH,
        TUNED,
    ),
    Figure(
        "from producer to sink at 1,000 records/s: p50, p95",
        "latency",
        "1,000 records/s: ours",
        ("p50", "p95"),
        "{0}, {1} ms",
        BOTH,
    ),
    Figure(
        "cores of an idle consumer with 4 partitions: driver, JVM, source",
        "idle",
        "4 owned partitions: ours",
        ("the driver's Python (ours: the agent)", "JVM", "Python of the source"),
        "{0}, {1}, {2}",
        BOTH,
        target="",
    ),
    Figure(
        "a `weighted` plan of 100,000 partitions on 1,000 consumers, one joins",
        "weighted",
        "repair: one joins",
        ("median ms",),
        PAUSE,
    ),
    Figure(
        "predicted pauses inside the predicted interval, by load (least, median, most)",
        "predicted pauses",
        "2.6, 3.4, 4.9",
        ("inside the interval",),
        "{0}",
        ("26.6, 38.0, 48.2",),
    ),
)


def markdown(table_of: Callable[[str], str]) -> str:
    """Return the table of the figures; `table_of` returns the table of a place."""
    rows = [_row(one, table_of(one.table)) for one in FIGURES]
    return grid(("figure", "ours", "beside", "target"), rows, ("beside", "target"))


def _row(figure: Figure, table: str) -> tuple[str, ...]:
    value = figure.value.format(*_cells(table, figure.row, figure.columns))
    beside = [
        f"{one.rpartition(' | ')[2]}: {figure.value.format(*_cells(table, one, figure.columns))}"
        for one in figure.others
    ]
    row = figure.row if figure.target == "target" else figure.target
    target = _cells(table, row, ("target",))[0] if row else "–"
    return figure.title, value, "; ".join(beside) or "–", target


def _cells(table: str, row: str, columns: Sequence[str]) -> list[str]:
    """Raises `LookupError` without this row or column."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    head = _split(lines[0])
    found = next((line for line in lines[2:] if line.startswith(f"| {row} |")), "")
    if not found:
        raise LookupError(f"no row {row!r} below {lines[0]}: name one of its rows in benchmarks/figures.py")
    cells = _split(found)
    return [cells[head.index(one)] for one in columns]


def _split(line: str) -> list[str]:
    return [one.strip() for one in line.strip().strip("|").split("|")]
