"""Writes the tables of hand-offs into README.md and docs/measurements.md, from what `benchmarks.handoff` has measured.

python -m benchmarks.headline [--json build/handoff.json] [--partitions 48]

What was measured with `--airflow` goes into a place of its own, of the second file alone.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.handoff_report import TITLES, number, ordered, three

README, MEASUREMENTS = Path("README.md"), Path("docs/measurements.md")
HAND_OFFS, UNDER_AIRFLOW = "hand-offs", "hand-offs under Airflow"
KINDS = {"join": "join", "leave": "clean leave", "rolling": "rolling restart", "crash": "kill -9"}
TITLES_OF_KINDS = {**KINDS, "silent": "kill -9 that nobody reports"}
DETAILS = ("moved", "by round", "worst", "others", "by round", "worst", "control", "worst")
COUNTS = {"moves": "moves", "needless": "needless", "lost": "lost", "duplicated": "doubled"}


def table(result: Mapping[str, Any], partitions: int) -> str:
    """Markdown, with the circumstances above it. Raises `SystemExit` if so many partitions were not measured."""
    cells = {(c["contender"], c["kind"]): c for c in result["summary"] if c["partitions"] == partitions}
    if not cells:
        measured = sorted({str(cell["partitions"]) for cell in result["summary"]}, key=int)
        sys.exit(f"{partitions} partitions were not measured, only {', '.join(measured)}: give --partitions")
    head = ["| median (worst) |", "|---|"]
    for title in KINDS.values():
        head = [f"{head[0]} {title}: moved | others |", f"{head[1]}--:|--:|"]
    rows = [
        f"| {title} |" + "".join(f" {_both(cells.get((contender, kind)))} |" for kind in KINDS)
        for contender, title in TITLES.items()
        if any(name == contender for name, _ in cells)
    ]
    sessions = sorted(
        {f"{TITLES[name]}: {s:g} s" for name, s in result["sessions_s"].items() if (name, "crash") in cells}
    )
    told = f"Sessions, after which a dead consumer is missed: {'; '.join(sessions)}."
    return "\n".join(
        [
            f"Milliseconds for which a partition stood still, beyond what it did undisturbed: {partitions} partitions, "
            f"{circumstances(result)}",
            "",
            *head,
            *rows,
            "",
            told if sessions else "Nobody was killed in these runs.",
        ]
    )


def _both(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "– | –"
    return f"{_middle(cell['moved'])} | {_middle(cell['unmoved'])}"


def _middle(spread: Mapping[str, Any]) -> str:
    return f"{number(spread['median'])} ({number(spread['worst'])})" if spread["n"] else "–"


def details(result: Mapping[str, Any], partitions: int) -> str:
    """Markdown: everything that was found of every kind and contender."""
    names = (*DETAILS, *COUNTS.values(), "settled s")
    rows = [f"| {partitions} partitions | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for cell in ordered([cell for cell in result["summary"] if cell["partitions"] == partitions]):
        control = (number(cell["control"].get("median")), number(cell["control"].get("worst")))
        counts = [f"{cell[name]:,}" for name in COUNTS]
        title = f"{TITLES_OF_KINDS[cell['kind']]}: {TITLES[cell['contender']]}"
        found = (*three(cell["moved"]), *three(cell["unmoved"]), *control, *counts, f"{cell['settled_s']:.1f}")
        rows.append(f"| {title} | {' | '.join(found)} |")
    asked = [target for target in result["targets"] if target["partitions"] == partitions]
    missed = [f"{one['kind']}, {TITLES[one['contender']]}, {one['what']}" for one in asked if not one["met"]]
    said = f"{len(asked) - len(missed)} of {len(asked)} targets are met; missed: {'; '.join(missed) or 'none'}."
    return "\n".join([*rows, "", said])


def circumstances(result: Mapping[str, Any]) -> str:
    """On which machine it was measured, and how."""
    rounds = "one round" if result["rounds"] == 1 else f"{result['rounds']} rounds"
    load = f"load {result['load_before']:.1f} before and {result['load_after']:.1f} at the end of the run"
    return f"{rounds}, {result['cores']} cores, {load}."


def placed(text: str, made: str, place: str) -> str:
    """The text with this between the place's markers. Raises `SystemExit` without them."""
    first, last = f"<!-- {place}: begin -->", f"<!-- {place}: end -->"
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"there is no place for the table: put the lines {first} and {last} where it belongs")
    return f"{before}{begin}\n{made}\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("build/handoff.json"))
    parser.add_argument("--partitions", type=int, default=48, help="in the README; the other file has all of them")
    given = parser.parse_args()
    if not given.json.exists():
        sys.exit(f"{given.json} is not there: make it with python -m benchmarks.handoff --json {given.json}")
    result = json.loads(given.json.read_text())
    measured = sorted({cell["partitions"] for cell in result["summary"]})
    every = "\n\n".join([circumstances(result).capitalize(), *(details(result, one) for one in measured)])
    place = UNDER_AIRFLOW if result.get("airflow") else HAND_OFFS
    MEASUREMENTS.write_text(placed(MEASUREMENTS.read_text(), every, place))
    if place == HAND_OFFS:
        README.write_text(placed(README.read_text(), table(result, given.partitions), place))


if __name__ == "__main__":
    main()
