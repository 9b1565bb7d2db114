"""Change every comparison and every condition of the core and the agent, one at a time, and see whether a test notices.

    python -m tests.simulation.guards                  # goes on where build/guards.json ends
    python -m tests.simulation.guards --sample 200     # so many of them, drawn by chance with a fixed seed

A comparison becomes its neighbour (`<` becomes `<=`, `==` becomes `!=`), a condition its opposite, `and` becomes `or`. Works
on copies of the tree. Only the tests without servers are asked, and some histories after them.
"""

import argparse
import ast
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.simulation.mutants import ROOT
from tests.simulation.mutation import SUITES, copied, passes

FILE = ROOT / "build" / "guards.json"
FOLDERS = ("coordinator_tasks/core", "spark_apps/agent")
ELSEWHERE = ("diagram.py", "process.py", "status_server.py")  # drawn for people, or tested with servers only
HISTORIES = (*SUITES["simulation"][:2], "--seeds", "300", "--start", "0", "--no-shrink", "--file", "simulation.json")
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
            if not isinstance(test, ast.expr) or isinstance(test, (ast.Compare, ast.BoolOp)):
                continue
            new = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else _not(test)
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


def sites(root: Path = ROOT) -> list[Site]:
    """Every place, in the order of files and lines."""
    found: list[Site] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            if path.name not in ELSEWHERE:
                changer = _Changer(None)
                changer.visit(ast.parse(path.read_text()))
                file = str(path.relative_to(root))
                found += [Site(file, number, *one) for number, one in enumerate(changer.found)]
    return found


def changed(site: Site, root: Path) -> str:
    """The file's text with that one change; comments are gone."""
    tree = ast.parse((root / site.file).read_text())
    return ast.unparse(ast.fix_missing_locations(_Changer(site.number).visit(tree)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.guards", description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="how many, drawn by chance")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    wanted = sites()
    if given.sample is not None:
        wanted = random.Random(1).sample(wanted, min(given.sample, len(wanted)))
    known: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}
    until = time.monotonic() + given.limit_s
    with tempfile.TemporaryDirectory(prefix="guards-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            copies.put(copied(Path(folder) / str(number)))

        def work(site: Site) -> None:
            if site.name in known or time.monotonic() > until:
                return
            copy = copies.get()
            known[site.name] = _noticed_by(site, copy)
            copies.put(copy)
            FILE.parent.mkdir(exist_ok=True)
            FILE.write_text(json.dumps(dict(sorted(known.items())), indent=1))
            print(f"{known[site.name] or 'NOT CAUGHT':10} {site.name}", flush=True)

        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(work, wanted))
    return _summary([site for site in wanted if site.name in known], known)


def _noticed_by(site: Site, copy: Path) -> str:
    target = copy / site.file
    before = target.read_text()
    target.write_text(changed(site, copy))
    try:
        if not passes(SUITES["unit"], copy):
            return "unit"
        return "" if passes(HISTORIES, copy) else "simulation"
    finally:
        target.write_text(before)
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


def _summary(tried: list[Site], known: dict[str, str]) -> int:
    missed = [site.name for site in tried if not known[site.name]]
    share = 1 - len(missed) / max(1, len(tried))
    print(f"\n{len(tried)} of {len(sites())} places changed, {len(tried) - len(missed)} noticed ({share:.1%})")
    print(*missed, sep="\n")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
