"""Change the core, the agent and the plain consumer, one place at a time, and see whether a test notices.

    python -m tests.simulation.guards                  # goes on where build/guards.json ends
    python -m tests.simulation.guards --sample 80      # so many of every part and kind, drawn by chance, always the same

`tests.simulation.places` says what is changed, and into what. The tests without servers that run the changed function are
asked, the quickest first, and some histories after them.
"""

import argparse
import ast
import json
import random
import sys
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

from tests.simulation.forks import BROKEN, ENDLESS, ROOT, AtImport, Change, Tests, each, keep, with_tests
from tests.simulation.places import KINDS, places
from tests.simulation.suites import UNIT, histories

FILE = ROOT / "build" / "guards.json"
PARTS = {
    "coordinator_tasks/core/assignors": "strategies",
    "coordinator_tasks/core": "core",
    "spark_apps/agent": "agent",
    "spark_apps/plain.py": "plain",
}
ELSEWHERE = ("consumer_process.py", "status_server.py")  # drawn for people, or tested with servers only
STRATEGIES = ("tests/unit/coordinator_tasks/core/assignors/test_weighted.py", "tests/conformance/test_vectors.py")
SEEDS = 300
NOTICED = ("", "unit", "simulation", "at import")


class Site(NamedTuple):
    """The `number`-th changeable place of a file; `text` is its code, `changed` the new code."""

    file: str
    number: int
    kind: str
    line: int
    text: str
    changed: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.text}  ->  {self.changed}"

    @property
    def part(self) -> str:
        return next(name for begin, name in PARTS.items() if self.file.startswith(begin))

    @property
    def chance(self) -> float:
        """Return a number drawn from the place's text, so that a change elsewhere draws the same sample."""
        return random.Random(f"{self.file} {self.text} {self.changed}").random()


def sites(root: Path = ROOT) -> list[Site]:
    """Every place, file by file."""
    found: list[Site] = []
    for path in sorted({path for part in PARTS for path in _files(root / part)}):
        file = str(path.relative_to(root))
        found += [Site(file, n, *one[:4]) for n, one in enumerate(places(ast.parse(path.read_text())))]
    return found


def _files(part: Path) -> list[Path]:
    files = [part] if part.is_file() else part.rglob("*.py")
    return [path for path in files if path.name not in ELSEWHERE]


def sample(found: list[Site], count: int) -> list[Site]:
    """So many of every part and kind."""
    strata = groupby(sorted(found, key=lambda one: (one.part, one.kind, one.chance)), lambda one: (one.part, one.kind))
    return [site for _, stratum in strata for site in list(stratum)[:count]]


def change_of(site: Site, root: Path = ROOT) -> Change:
    """Return the function around the place, before and after the change; raises `AtImport` outside of functions."""
    path = root / site.file
    tree = ast.parse(path.read_text())
    places(tree)[site.number].change()
    changed = compile(ast.fix_missing_locations(tree), path, "exec")
    return Change.of(site.file, compile(path.read_text(), path, "exec"), changed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.guards", description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="how many of every part and kind, drawn by chance")
    parser.add_argument("--only", default="", help="those whose name has this in it, also if they are known")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin none after so long")
    given = parser.parse_args()
    return with_tests((*UNIT, *STRATEGIES), (), lambda tests: _all(tests, given))


def _all(tests: Tests, given: argparse.Namespace) -> int:
    wanted = [site for site in sites() if given.only in site.name]
    if given.sample is not None:
        wanted = sample(wanted, given.sample)
    known: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}

    def ask(site: Site) -> int:
        try:
            change = change_of(site)
            change.apply()
        except AtImport:
            return NOTICED.index("at import")
        if tests.fail(tests.running(change.places)):
            return NOTICED.index("unit")
        return NOTICED.index("simulation" if histories(SEEDS) else "")

    def done(site: Site, result: int) -> None:
        known[site.name] = {ENDLESS: "no end", BROKEN: "broken off"}.get(result) or NOTICED[result]
        keep(FILE, dict(sorted(known.items())))
        print(f"{known[site.name] or 'NOT CAUGHT':10} {site.name}", flush=True)

    left = [site for site in wanted if given.only or known.get(site.name, "broken off") == "broken off"]
    each(left, ask, done, limit_s=given.limit_s)
    return _summary([site for site in wanted if site.name in known], known)


def _summary(tried: list[Site], known: dict[str, str]) -> int:
    found = [site for site in tried if known[site.name] != "at import"]
    missed = [site.name for site in found if known[site.name] in ("", "broken off")]
    share = 1 - len(missed) / max(1, len(found))
    print(f"\n{len(found)} of {len(sites())} places changed, {len(found) - len(missed)} noticed ({share:.1%})")
    for part, kind in product(dict.fromkeys(PARTS.values()), KINDS):
        names = [site.name for site in found if (site.part, site.kind) == (part, kind)]
        if names:
            print(f"{part:10} {kind:10} {len(names):5} tried {len(set(names) - set(missed)):5} noticed")
    print(*missed, sep="\n")
    for site in tried:
        if known[site.name] == "at import":
            print(f"not changed, what an import does: {site.name}")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
