"""The rules of the protocol in `mutants.toml`, each with a breaking one-line change, for `tests.simulation.mutation`."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.simulation.forks import PRODUCT, ROOT


class Mutant(NamedTuple):
    """`old` becomes `new` at the first place in `function`; `rule` is the sentence that then no longer holds.

    A function is named as `Class.method` or by the name alone, anywhere in the product, or as `module.name` if
    ambiguous. Line breaks in `old` do not matter.
    """

    function: str
    old: str
    new: str
    rule: str


MUTANTS = tuple(Mutant(*row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutants"])


class Place(NamedTuple):
    """A function in its file: the lines from `first` up to and without `end`, counted from 0."""

    path: Path
    first: int
    end: int


def mutated(mutant: Mutant) -> tuple[Path, str]:
    """Return the file that the mutant changes, and its changed text; raises `ValueError` if out of date."""
    places = functions().get(mutant.function, [])
    if len(places) != 1:
        raise ValueError(f"{len(places)} functions are called {mutant.function}: bring the mutant up to date")
    path, first, end = places[0]
    lines = path.read_text().splitlines(keepends=True)
    pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", mutant.old))
    text, count = re.subn(pattern, lambda _: mutant.new, "".join(lines[first:end]), count=1)
    if not count:
        raise ValueError(f"{mutant.function} in {path.name} has no {mutant.old!r}: bring the mutant up to date")
    return path, "".join(lines[:first]) + text + "".join(lines[end:])


@cache
def functions() -> dict[str, list[Place]]:
    """Return the product's functions by name: with and without their module's."""
    found: dict[str, list[Place]] = {}
    for path in sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")):
        for name, place in _of(path, ast.parse(path.read_text()), ""):
            for known_as in (name, f"{path.stem}.{name}"):
                found.setdefault(known_as, []).append(place)
    return found


def _of(path: Path, parent: ast.AST, prefix: str) -> Iterator[tuple[str, Place]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, Place(path, node.lineno - 1, node.end_lineno or node.lineno)
        elif isinstance(node, ast.ClassDef):
            yield from _of(path, node, f"{prefix}{node.name}.")
