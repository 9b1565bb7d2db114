"""All tests on real clusters, resumable: `python -m tests.clusters [--only WORD ...] [--again]`.

Each is an ordinary test with the marker `clusters`. It runs in a pytest of its own, so that one engine's processes and limits never
meet another's. A finished test is a line in build/clusters/results.jsonl, with what it recorded by `record_property`, and is not tried
again. The exit code is 1 if a test failed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree  # of a file that our own pytest has just written

import pytest

BUILD = Path("build/clusters")
RESULTS = BUILD / "results.jsonl"
LIMIT_S = 3_600.0
PYTEST = [sys.executable, "-m", "pytest", "-q", "-m", "clusters", "-o", f"faulthandler_timeout={LIMIT_S:g}"]


def results() -> dict[str, dict[str, Any]]:
    """Test → its last line."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {one["key"]: one for one in map(json.loads, lines)}


def tests() -> list[str]:
    """The node ids of all of them, in the order of their files."""
    listed = subprocess.run([*PYTEST, "--collect-only", "tests"], capture_output=True, text=True, check=False)
    if listed.returncode not in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(listed.stdout + listed.stderr)
    return [line for line in listed.stdout.splitlines() if "::" in line]


def run(test: str) -> str:
    """One test in a process of its own; its whole output stays in a file. Return its line."""
    name = test.removeprefix("tests/").replace("/", "-").replace("::", "-")
    report, log = BUILD / f"{name}.xml", BUILD / f"{name}.log"
    report.unlink(missing_ok=True)
    begun = time.monotonic()
    with log.open("w") as output:
        command = [*PYTEST, f"--junit-xml={report}", test]
        code = subprocess.run(command, check=False, stdout=output, stderr=output, timeout=LIMIT_S).returncode
    said = list(ElementTree.parse(report).iter()) if report.exists() else []
    problems = [f"exit code {code}, see {log}"] if code else []
    # Nothing is said to have passed that has not run.
    problems += [one.attrib.get("message") or "skipped" for one in said if one.tag == "skipped"]
    figures = {one.attrib["name"]: one.attrib["value"] for one in said if one.tag == "property"}
    return json.dumps({"key": test, "problems": problems, "seconds": round(time.monotonic() - begun), **figures})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clusters", description="The tests on real clusters.")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="tests whose name has one of these words")
    parser.add_argument("--again", action="store_true", help="also those that have run")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    for test in tests():
        if (not given.only or any(word in test for word in given.only)) and (given.again or test not in results()):
            line = run(test)
            print(line, flush=True)
            with RESULTS.open("a") as file:
                file.write(f"{line}\n")
    return 1 if any(one["problems"] for one in results().values()) else 0


if __name__ == "__main__":
    sys.exit(main())
