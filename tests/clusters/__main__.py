"""All tests on real clusters, resumable: `python -m tests.clusters [--only WORD ...] [--again]`.

Each is an ordinary test with the marker `clusters`. It runs in a pytest of its own, so that one engine's processes and limits never
meet another's. A finished test is a line in build/clusters/results.jsonl, with what it recorded by `record_property`, and is not tried
again. The end writes build/clusters/report.md; the exit code is 1 if a test failed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree  # of a file that our own pytest has just written

import pytest

BUILD = Path("build/clusters")
LIMIT_S = 3_600.0
PYTEST = [sys.executable, "-m", "pytest", "-q", "-m", "clusters", "-o", f"faulthandler_timeout={LIMIT_S:g}"]
Line = dict[str, Any]


class Notes:
    """The file of results: a line of JSON for each finished test, with a `key` and `problems`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def lines(self) -> list[Line]:
        """Return all lines; of tests that were noted twice the last."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return list({one["key"]: one for one in map(json.loads, lines)}.values())

    def due(self, keys: Iterable[str]) -> list[str]:
        """Return the tests without a line, in their order."""
        done = {one["key"] for one in self.lines()}
        return [key for key in keys if key not in done]

    def add(self, key: str, **line: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps({"key": key, **line}) + "\n")


def tests() -> list[str]:
    """The node ids of all of them, in the order of their files."""
    listed = subprocess.run([*PYTEST, "--collect-only", "tests"], capture_output=True, text=True, check=False)
    if listed.returncode not in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(listed.stdout + listed.stderr)
    return [line for line in listed.stdout.splitlines() if "::" in line]


def figures(report: Path) -> dict[str, str]:
    """What a test recorded of itself."""
    properties = ElementTree.parse(report).iter("property") if report.exists() else iter(())
    return {one.attrib["name"]: one.attrib["value"] for one in properties}


def skipped(report: Path) -> str:
    """Why it was skipped; empty = it was not."""
    found = next(ElementTree.parse(report).iter("skipped"), None) if report.exists() else None
    return "" if found is None else found.attrib.get("message") or "skipped"


def run(notes: Notes, test: str) -> None:
    """One test in a process of its own; its whole output stays in a file."""
    name = test.removeprefix("tests/").replace("/", "-").replace("::", "-")
    report, log = BUILD / f"{name}.xml", BUILD / f"{name}.log"
    report.unlink(missing_ok=True)
    begun = time.monotonic()
    with log.open("w") as output:
        command = [*PYTEST, f"--junit-xml={report}", test]
        code = subprocess.run(command, check=False, stdout=output, stderr=output, timeout=LIMIT_S).returncode
    problems = [f"exit code {code}, see {log}"] if code else []
    # Nothing is said to have passed that has not run.
    problems += [why] if (why := skipped(report)) else []
    notes.add(test, problems=problems, seconds=round(time.monotonic() - begun), **figures(report))


def summary(lines: Sequence[Line]) -> str:
    """One row for each test that ran."""
    return "\n".join(["| test | result | seconds | what it recorded |", "|---|---|---|---|", *map(_row, lines)]) + "\n"


def _row(line: Line) -> str:
    recorded = ", ".join(f"{name}: {value}" for name, value in _recorded(line))
    result = "failed" if line["problems"] else "passed"
    return f"| `{line['key'].removeprefix('tests/')}` | {result} | {line['seconds']} | {recorded} |"


def _recorded(line: Line) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in line.items() if name not in {"key", "problems", "seconds"})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clusters", description="The tests on real clusters.")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="tests whose name has one of these words")
    parser.add_argument("--again", action="store_true", help="also those that have run")
    given = parser.parse_args()
    notes = Notes(BUILD / "results.jsonl")
    wanted = [one for one in tests() if not given.only or any(word in one for word in given.only)]
    for test in wanted if given.again else notes.due(wanted):
        print(test, flush=True)
        run(notes, test)
        (BUILD / "report.md").write_text(summary(notes.lines()))
    print(summary(notes.lines()))
    return 1 if any(one["problems"] for one in notes.lines()) else 0


if __name__ == "__main__":
    sys.exit(main())
