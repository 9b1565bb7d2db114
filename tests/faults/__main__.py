"""The long part of the fault tests, resumable: `python -m tests.faults --minutes 30 [--only PART ...]`.

Each finished case is a line in build/faults/results.jsonl and is not tried again; build/faults/summary.md says what it all
came to. Start it as often as you like: it goes on where it ended. A case that failed keeps its folder, and the exit code is 1.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from tests.faults import (
    broker,
    deaths,
    hostile,
    malformed,
    network,
    orchestrator,
    outage,
    spark,
)
from tests.faults.notes import Notes, Part, Turn, Wanted

BUILD = Path("build/faults")
PARTS: list[Part] = [
    malformed.PART,
    hostile.PART,
    *deaths.PARTS,
    outage.PART,
    broker.PART,
    network.PART,
    orchestrator.PART,
    spark.PART,
]


def summary(notes: Notes, wanted: Wanted) -> str:
    """One line per part that was begun, and every case that failed."""
    lines = ["| part | failed | what it came to |", "|---|---|---|"]
    for part in PARTS:
        found = notes.of(part.name)
        if found:
            failed = sum(bool(one["problems"]) for one in found)
            lines.append(f"| {part.name} | {failed} of {len(found)} | {part.summary(notes, wanted)} |")
    failures = [f"- {one['part']}: {one['key']}: {one['problems'][:3]}" for one in notes.lines() if one["problems"]]
    return "\n".join([*lines, "", *failures]) + "\n"


def run(notes: Notes, wanted: Wanted, minutes: float, only: Collection[str]) -> None:
    """Work until everything is done or the time is over."""
    until = time.monotonic() + 60 * minutes
    for part in PARTS:
        if not only or part.name in only:
            folder = Path(tempfile.mkdtemp(prefix=f"faults-{part.name.replace(' ', '-')}-"))
            part.run(Turn(notes, folder, until, wanted))
            (BUILD / "summary.md").write_text(summary(notes, wanted))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The long part of the fault tests.")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further case after this time")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], default=[], help="none = all parts")
    for name, default in {"pairs": 500, "outage-min": 3.0}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    notes = Notes(BUILD / "results.jsonl")
    wanted = Wanted(given.pairs, given.outage_min)
    run(notes, wanted, given.minutes, given.only)
    print(summary(notes, wanted))
    return 1 if any(one["problems"] for one in notes.lines()) else 0


if __name__ == "__main__":
    sys.exit(main())
