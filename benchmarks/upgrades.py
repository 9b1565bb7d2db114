"""Cost of upgrades of Spark applications, by the plain loop and in a real Airflow.

Runs their tests, and keeps their figures.

    python -m benchmarks.upgrades [--rounds 1] [--json FILE]

The stalls are the history's, `off` their difference from the rows of the sink.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import PROJECT, in_rounds, noted, told
from benchmarks.pause_truth import Compared
from benchmarks.result import grid, output, report, whole
from coordinator_tasks.core.fleet.upgrade import UpgradePhase
from coordinator_tasks.service.fleets.upgrade_report import UpgradeReport

FILES = ("tests/integration/test_spark_upgrade.py", "tests/integration/test_airflow_upgrade.py")
FIGURES = "UPGRADE_FIGURES"
"""Names the file to which the tests append a line of JSON for each upgrade."""
TITLES = (
    "upgrade",
    "moves",
    "stall of a moved partition, least / most",
    "of the dead, at least",
    "control",
    "off, median / most",
    "from the begin to its end",
    "of which until the new applications had started",
    "load",
)


def keep(found: UpgradeReport, against: Iterable[Compared]) -> None:
    """Append the cost of an upgrade, if requested."""
    if file := os.environ.get(FIGURES):
        with Path(file).open("a") as lines:
            print(json.dumps(figures(found, against)), file=lines)


def figures(found: UpgradeReport, against: Iterable[Compared]) -> dict[str, Any]:
    """Times are in seconds; `load` is that of the machine in the minute before. `against` may have other rebalances too."""
    upgrade, waited = found.upgrade, [one for one in found.moved if one.stall_s is not None]
    own = {one.rebalance for one in found.moved}
    moving_at = next(event.at for event in upgrade.events if event.text.startswith("step "))
    return {
        "phase": upgrade.phase.value,
        "steps": list(upgrade.steps),
        "failed": upgrade.reason.partition(" (")[0],
        "moves": len(found.moved),
        "stalls_s": [_rounded(one.stall_s) for one in waited if not one.least],
        "least_s": [_rounded(one.stall_s) for one in waited if one.least],
        "control_s": [_rounded(one.longest_s) for one in found.control.values() if one.partitions],
        "off_s": [_rounded(one.off_s) for one in against if one.rebalance in own],
        "took_s": _rounded(upgrade.events[-1].at - upgrade.began_at),
        "started_s": _rounded(moving_at - upgrade.began_at),
        "load": _rounded(os.getloadavg()[0]),
    }


def _rounded(seconds: float | None) -> float:
    return round(seconds or 0.0, 4)


def measure(rounds: int) -> list[dict[str, Any]]:
    """The figures of each upgrade. Raises `SystemExit` if a test fails."""
    found: list[dict[str, Any]] = []
    for _ in range(rounds):
        for file in FILES:
            with tempfile.NamedTemporaryFile("r") as lines:
                command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", file]
                tested = subprocess.run(
                    command, cwd=PROJECT, env={**os.environ, FIGURES: lines.name}, stdout=sys.stderr, check=False
                )
                if tested.returncode:
                    sys.exit(f"{file} fails: its output is above")
                found += [{"under_airflow": file == FILES[1], **json.loads(line)} for line in lines]
    return found


def rows_of(upgrades: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each kind of upgrade: of all rounds the least and the most, and the median of the times."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for one in upgrades:
        kinds.setdefault(_title(one), []).append(one)
    return [[title, *_cells(its)] for title, its in kinds.items()]


def _title(one: Mapping[str, Any]) -> str:
    where = "in Airflow" if one["under_airflow"] else "plain loop"
    steps = " and ".join(f"{step} %" for step in one["steps"])
    if one["phase"] == UpgradePhase.DONE.value:
        return f"{where}: {steps}, passes"
    return f"{where}: {steps}, fails in {one['failed']}, all moves back"


def _cells(its: Sequence[Mapping[str, Any]]) -> list[str]:
    every = {
        name: [value for one in its for value in one[name]] for name in ("stalls_s", "least_s", "control_s", "off_s")
    }
    off_ms = [1_000 * abs(one) for one in every["off_s"]]
    return [
        " or ".join(f"{moves}" for moves in sorted({one["moves"] for one in its})),
        f"{min(every['stalls_s']):.2f} / {max(every['stalls_s']):.2f} s",
        f"{max(every['least_s']):.2f} s" if every["least_s"] else "–",
        f"{max(every['control_s']):.2f} s" if every["control_s"] else "none stayed",
        f"{median(off_ms):.0f} / {max(off_ms):.0f} ms",
        *(f"{median(one[name] for one in its):.0f} s" for name in ("took_s", "started_s")),
        " and ".join(f"{one['load']:.1f}" for one in its),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    return f"{told(result, in_rounds(result['rounds']))}\n\n{grid(TITLES, rows_of(result['upgrades']))}"


def show(result: Mapping[str, Any]) -> None:
    table = Table(*TITLES, title=f"upgrades of Spark applications, {in_rounds(result['rounds'])}")
    for row in rows_of(result["upgrades"]):
        table.add_row(*row)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=whole, default=1)
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    with noted(rounds=given.rounds) as result:
        result["upgrades"] = measure(given.rounds)
    report(result, show, given.json)


if __name__ == "__main__":
    main()
