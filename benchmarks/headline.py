"""Writes the table of hand-offs into README.md, from what `benchmarks.handoff` has measured.

python -m benchmarks.headline [--json build/handoff.json] [--readme README.md] [--partitions 48]
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.handoff_report import TITLES, number

BEGIN, END = "<!-- hand-offs: begin -->", "<!-- hand-offs: end -->"
KINDS = {"join": "join", "leave": "clean leave", "rolling": "rolling restart", "crash": "kill -9"}


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
        {f"{TITLES[name]} {s:g} s" for name, s in result["sessions_s"].items() if (name, "crash") in cells}
    )
    told = f"Sessions, after which a dead consumer is missed: {', '.join(sessions)}."
    return "\n".join(
        [
            f"Milliseconds for which a partition stood still, beyond what it did undisturbed: {partitions} partitions, "
            f"{result['rounds']} rounds, {result['cores']} cores, load {result['load_before']:.1f} before and "
            f"{result['load_after']:.1f} at the end of the run.",
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


def placed(readme: str, made: str) -> str:
    """The README with this between its markers. Raises `SystemExit` without them."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"the README has no place for the table: put the lines {BEGIN} and {END} where it belongs")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("build/handoff.json"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--partitions", type=int, default=48)
    given = parser.parse_args()
    if not given.json.exists():
        sys.exit(f"{given.json} is not there: make it with python -m benchmarks.handoff --json {given.json}")
    made = table(json.loads(given.json.read_text()), given.partitions)
    given.readme.write_text(placed(given.readme.read_text(), made))


if __name__ == "__main__":
    main()
