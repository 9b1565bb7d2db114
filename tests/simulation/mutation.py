"""Break the rules of `tests.simulation.mutants` one by one, and ask every suite whether it notices.

    python -m tests.simulation.mutation            # all that are not in build/mutants.json yet
    python -m tests.simulation.mutation --only 3 7

Works on a copy of the tree; the working tree is never touched.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.simulation.mutants import MUTANTS, ROOT, Mutant, mutated

FILE = ROOT / "build" / "mutants.json"
COPIED = ("coordinator_tasks", "spark_apps", "plugins", "tests", "pyproject.toml")
SEEDS = 1500
LIMIT_S = 240
UNIT = (
    *("agent_agent", "agent_holder", "agent_runner", "batches", "codecs", "confirm", "decide_is_total", "directives"),
    *("draft", "fence", "fleet", "history", "holding", "machine", "names", "presence", "recovery", "registries"),
    *("services", "topics"),
)
SUITES: dict[str, tuple[str, ...]] = {
    "unit": ("-m", "pytest", "-x", "-q", *(f"tests/unit/test_{name}.py" for name in UNIT), "tests/scenarios"),
    "machine": ("-m", "pytest", "-x", "-q", "tests/unit/test_protocol_walk.py"),
    "search": ("-m", "tests.simulation.search", "--small"),
    "simulation": (
        *("-m", "tests.simulation", "--seeds", str(SEEDS), "--start", "0", "--limit-s", "120", "--no-shrink"),
        *("--file", "simulation.json"),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.mutation", description="Which suite notices what."
    )
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the mutants")
    parser.add_argument("--suites", nargs="*", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin no further mutant after so long")
    given = parser.parse_args()
    known: dict[str, dict[str, bool]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(Path(folder) / "tree")
        for number, mutant in enumerate(MUTANTS):
            if given.only is not None and number not in given.only:
                continue
            caught = known.setdefault(mutant.rule, {})
            wanted = [suite for suite in given.suites if suite not in caught or given.only is not None]
            if not wanted or time.monotonic() - began > given.limit_s:
                continue
            caught |= _tried(mutant, copy, wanted)
            FILE.parent.mkdir(exist_ok=True)
            FILE.write_text(json.dumps(known, indent=1))
            print(_row(number, mutant, caught), flush=True)
    return _summary(known)


def copied(target: Path) -> Path:
    """A copy of what the suites need."""
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    return target


def _tried(mutant: Mutant, copy: Path, suites: list[str]) -> dict[str, bool]:
    target = copy / mutant.file
    before = target.read_text()
    target.write_text(mutated(mutant, copy))
    try:
        return {suite: not passes(SUITES[suite], copy) for suite in suites}
    finally:
        target.write_text(before)


def passes(arguments: tuple[str, ...], folder: Path) -> bool:
    """Whether that suite passes on the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{folder / 'plugins'}", "PYTHONDONTWRITEBYTECODE": "1"}
    (folder / "simulation.json").unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False  # it no longer comes to an end
    return done.returncode == 0


def _row(number: int, mutant: Mutant, caught: dict[str, bool]) -> str:
    marks = " ".join(f"{suite if caught.get(suite) else '-':10}" for suite in SUITES)
    return f"{number:3} {marks} {mutant.rule}"


def _summary(known: dict[str, dict[str, bool]]) -> int:
    tried = [m for m in MUTANTS if known.get(m.rule)]
    missed = [m.rule for m in tried if not any(known[m.rule].values())]
    by_suite = {suite: sum(known[m.rule].get(suite, False) for m in tried) for suite in SUITES}
    shown = ", ".join(f"{suite} {n}" for suite, n in by_suite.items())
    print(f"\n{len(tried)} of {len(MUTANTS)} mutants tried, {len(tried) - len(missed)} caught ({shown})")
    for rule in missed:
        print(f"not caught: {rule}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
