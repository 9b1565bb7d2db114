"""Stalls of partitions in the demonstration: runs the demonstration, and keeps the events of its reports.

    python -m benchmarks.demo [--runs 3] [--json FILE]

A failed run ends the benchmark.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.circumstances import PROJECT, noted, told
from benchmarks.result import grid, options, report, whole
from coordinator_tasks.devstack.demo.stack import default_folders

KINDS = {"join": "join", "drain": "drain", "kill": "kill -9, reported by the launcher"}
STALLS = {"moved_stall_ms": "total of moved", "unmoved_stall_ms": "total of unmoved", "quiet_stall_ms": "usual"}
TIMES = {"to_plan_s": "to the plan, s", "to_stable_s": "to Stable, s"}
TITLES = ("event", "moved", *(f"{name} p50 / max, ms" for name in STALLS.values()), *TIMES.values())
TOTALS = ("consumed", "lost", "duplicated_by_clean_moves", "duplicated_by_kills", "unowned_records")


def measure(runs: int) -> list[dict[str, Any]]:
    """The totals and the events of each run. Raises `SystemExit` if the demonstration fails."""
    found: list[dict[str, Any]] = []
    for _ in range(runs):
        if subprocess.run(
            [sys.executable, "-m", "coordinator_tasks.devstack.demo"], cwd=PROJECT, check=False
        ).returncode:
            sys.exit("the demonstration failed: its last lines say why")
        made = json.loads(default_folders().report.read_text())
        kept = ("kind", "moved", *STALLS, *TIMES)
        events = [{name: event[name] for name in kept} for event in made["events"]]
        found.append({**{name: made[name] for name in TOTALS}, "events": events})
    return found


def rows_of(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each event: the median of the runs' medians and the worst of all, and the median of each time."""
    rows = []
    for kind, title in KINDS.items():
        its = [event for run in runs for event in run["events"] if event["kind"] == kind]
        stalls = [
            f"{median(one[name]['p50'] for one in its):,.0f} / {max(one[name]['max'] for one in its):,.0f}"
            for name in STALLS
        ]
        times = [f"{median(one[name] for one in its):.1f}" for name in TIMES]
        rows.append([title, f"{median(one['moved'] for one in its):g}", *stalls, *times])
    return rows


def markdown(result: Mapping[str, Any]) -> str:
    runs = result["runs"]
    total = {name: sum(run[name] for run in runs) for name in TOTALS}
    said = (
        f"{total['consumed']:,} records: {total['lost']} lost, {total['unowned_records']} processed by a consumer that did not "
        f"own them, {total['duplicated_by_clean_moves']} repeated by clean moves and {total['duplicated_by_kills']} by kills."
    )
    how = "One run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"{told(result, how)}\n\n{grid(TITLES, rows_of(runs))}\n\n{said}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=whole, default=3)
    given = parser.parse_args()
    with noted() as result:
        result["runs"] = measure(given.runs)
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
