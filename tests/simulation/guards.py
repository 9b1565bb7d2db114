"""Change every comparison and every condition of the core and the agent, one at a time, and see whether a test notices.

    python -m tests.simulation.guards                  # goes on where build/guards.json ends
    python -m tests.simulation.guards --sample 200     # so many of them, drawn by chance with a fixed seed

A comparison becomes its neighbour (`<` becomes `<=`, `==` becomes `!=`), a condition and an operand of `and` and `or` its
opposite, `and` becomes `or`, `not x` becomes `x`. The tests without servers that run the changed function are asked, the
quickest first, and some histories after them.
"""

import argparse
import ast
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.simulation.forks import BROKEN, ENDLESS, ROOT, AtImport, Change, Tests, each, keep, with_tests
from tests.simulation.suites import UNIT, histories

FILE = ROOT / "build" / "guards.json"
FOLDERS = ("coordinator_tasks/core", "spark_apps/agent")
ELSEWHERE = ("diagram.py", "consumer_process.py", "status_server.py")  # drawn for people, or tested with servers only
STRATEGIES = ("tests/unit/coordinator_tasks/core/assignors/test_weighted.py", "tests/conformance/test_vectors.py")
SEEDS = 300
NOTICED = ("", "unit", "simulation", "at import", "not by unit")
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Site(NamedTuple):
    """The `number`-th place of a file that can be changed; `text` is what stands there, `changed` what it becomes."""

    file: str
    number: int
    line: int
    text: str
    changed: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.text}  ->  {self.changed}"


class _Changer(ast.NodeTransformer):
    """Changes the place with this number, or none, and takes all of them down."""

    def __init__(self, wanted: int | None) -> None:
        self.found: list[tuple[int, str, str]] = []
        self._wanted = wanted

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        for new in _changes(node):
            number = len(self.found)
            assert isinstance(node, ast.expr)
            self.found.append((node.lineno, ast.unparse(node), ast.unparse(new)))
            if number == self._wanted:
                return ast.copy_location(new, node)
        for name in ("test", "ifs"):
            self._conditions(node, name)
        return node

    def _conditions(self, node: ast.AST, name: str) -> None:
        """Conditions that are no comparison: `if x`, `while x`, `... if x else ...`, `[... if x]`."""
        value = getattr(node, name, None)
        for at, test in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(test, ast.expr) or _is_changed_itself(test):
                continue
            new = _not(test)
            number = len(self.found)
            self.found.append((test.lineno, f"if {ast.unparse(test)}", f"if {ast.unparse(new)}"))
            if number == self._wanted and isinstance(value, list):
                value[at] = ast.copy_location(new, test)
            elif number == self._wanted:
                setattr(node, name, ast.copy_location(new, test))


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _changes(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            ops = [*node.ops[:at], SWAPS[type(op)](), *node.ops[at + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for at, value in enumerate(node.values):
            if not _is_changed_itself(value):
                yield ast.BoolOp(node.op, [*node.values[:at], _not(value), *node.values[at + 1 :]])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def _is_changed_itself(test: ast.expr) -> bool:
    return isinstance(test, (ast.Compare, ast.BoolOp)) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def sites(root: Path = ROOT) -> list[Site]:
    """Every place, in the order of files and lines."""
    found: list[Site] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if path.name not in ELSEWHERE:
                changer = _Changer(None)
                changer.visit(ast.parse(path.read_text()))
                file = str(path.relative_to(root))
                found += [Site(file, number, *one) for number, one in enumerate(changer.found)]
    return found


def change_of(site: Site, root: Path = ROOT) -> Change:
    """The function around the place, as it is and with that one change; raises `AtImport` where there is none."""
    path = root / site.file
    tree = ast.fix_missing_locations(_Changer(site.number).visit(ast.parse(path.read_text())))
    return Change.of(site.file, compile(path.read_text(), path, "exec"), compile(tree, path, "exec"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.guards", description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="how many, drawn by chance")
    parser.add_argument("--histories", type=int, default=SEEDS, help="0 = ask the unit tests only, at first")
    parser.add_argument("--slowest-s", type=float, default=float("inf"), help="ask no test that takes longer")
    parser.add_argument("--only", default="", help="those whose name has this in it, also if they are known")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    return with_tests((*UNIT, *STRATEGIES), (), lambda tests: _all(tests, given))


def _all(tests: Tests, given: argparse.Namespace) -> int:
    wanted = [site for site in sites() if given.only in site.name]
    if given.sample is not None:
        wanted = random.Random(1).sample(wanted, min(given.sample, len(wanted)))
    known: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}

    def ask(site: Site) -> int:
        try:
            change = change_of(site)
            change.apply()
        except AtImport:
            return NOTICED.index("at import")
        known_to_units = known.get(site.name) == "not by unit" and not given.only
        if not known_to_units and tests.fail(tests.running(change.places, given.slowest_s)):
            return NOTICED.index("unit")
        if not given.histories:
            return NOTICED.index("not by unit")
        return NOTICED.index("simulation" if histories(given.histories) else "")

    def done(site: Site, result: int) -> None:
        known[site.name] = {ENDLESS: "no end", BROKEN: "broken off"}.get(result) or NOTICED[result]
        keep(FILE, dict(sorted(known.items())))
        print(f"{known[site.name] or 'NOT CAUGHT':10} {site.name}", flush=True)

    undone = {"unknown", "broken off", "not by unit"} if given.histories else {"unknown", "broken off"}
    left = [site for site in wanted if given.only or known.get(site.name, "unknown") in undone]
    each(left, ask, done, workers=given.workers, limit_s=given.limit_s)
    return _summary([site for site in wanted if site.name in known], known)


def _summary(tried: list[Site], known: dict[str, str]) -> int:
    found = [site for site in tried if known[site.name] != "at import"]
    missed = [site.name for site in found if known[site.name] in ("", "not by unit", "broken off")]
    share = 1 - len(missed) / max(1, len(found))
    print(f"\n{len(found)} of {len(sites())} places changed, {len(found) - len(missed)} noticed ({share:.1%})")
    print(*missed, sep="\n")
    for site in tried:
        if known[site.name] == "at import":
            print(f"not changed, what an import does: {site.name}")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
