"""The table of all codes at the head of the page on errors; each has a paragraph below, which people write."""

import importlib
import pkgutil
import re

import coordinator_tasks
import spark_apps
from coordinator_tasks.cli import EXITS, USAGE_CODE, USAGE_EXIT
from coordinator_tasks.cli.base import HELD_EXIT
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.audit import ALARMS, MEND, Kind
from tests.reference.form import ROOT, table

PAGE = ROOT / "docs" / "errors.md"
LEFT_OUT = ("spark_apps.records.fast_fetch", "spark_apps.startup")
"""Modules that an import starts something in."""
BEGIN, END = "<!-- codes: begin -->\n", "<!-- codes: end -->\n"


def errors() -> str:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}{table(('code', 'kind', 'what', 'exit code'), codes())}{END}{after}"


def codes() -> list[tuple[str, ...]]:
    found = [(kind.code, f"`{kind.__name__}`", _first(kind), str(exit_of(kind))) for kind in kinds()]
    found.append((USAGE_CODE, "–", "The command line cannot be understood.", str(USAGE_EXIT)))
    found += [
        (one.value, "finding", f"{one.name.replace('_', ' ').capitalize()}: {MEND[one]}.", _exit_of_audit(one))
        for one in Kind
    ]
    return [(f"[{code}](#{code.lower()})", *rest) for code, *rest in sorted(found)]


def exit_of(kind: type[CoordinatorError]) -> int:
    """Of a command that ends with it."""
    return next((number for base, number in EXITS.items() if issubclass(kind, base)), HELD_EXIT)


def _exit_of_audit(kind: Kind) -> str:
    return str(HELD_EXIT if kind in ALARMS else 0)


def _first(kind: type[CoordinatorError]) -> str:
    """The first sentence of its text."""
    text = " ".join(str(kind.__doc__).split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=\.) ", text)[0].replace("The root.", "An error without a kind of its own.")


def kinds() -> list[type[CoordinatorError]]:
    """The root and all classes below it, with every module imported."""
    for package in (coordinator_tasks, spark_apps):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__") and not found.name.startswith(LEFT_OUT):
                importlib.import_module(found.name)
    every: list[type[CoordinatorError]] = [CoordinatorError]
    for kind in every:
        every += [one for one in kind.__subclasses__() if one not in every]
    return [one for one in every if not one.__module__.startswith("tests.")]
