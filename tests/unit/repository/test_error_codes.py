"""Every kind of error that a person can meet has a code of its own, and the page on errors a paragraph for each code."""

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import coordinator_tasks
import spark_apps
from coordinator_tasks.cli import USAGE_CODE
from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged
from coordinator_tasks.core.machine.audit import MEND, Kind

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "errors.md"
LEFT_OUT = ("spark_apps.records.fast_fetch", "spark_apps.startup")
"""Modules that an import starts something in."""


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


def paragraphs() -> dict[str, str]:
    parts = re.split(r"^### (KPC-\d{3})\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {code: text.split("\n## ")[0].strip() for code, text in zip(parts[::2], parts[1::2], strict=True)}


def test_each_kind_has_a_code_that_no_other_has() -> None:
    found = kinds()
    assert len(found) > 30
    assert {kind.__name__ for kind in found if "code" not in vars(kind)} == set()
    codes = Counter([*(kind.code for kind in found), *Kind])
    assert MEND.keys() == set(Kind)
    assert [code for code, times in codes.items() if times > 1] == []
    assert all(re.fullmatch(r"KPC-\d{3}", code) for code in codes)


def test_the_page_has_a_paragraph_for_each_code_and_no_other() -> None:
    assert paragraphs().keys() == {kind.code for kind in kinds()} | {USAGE_CODE} | set(Kind)
    assert all(len(text.split(". ")) > 1 for text in paragraphs().values()), "what, why and what next"
    codes = re.findall(r"^### (KPC-\d{3})$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert codes == sorted(set(codes))


def test_an_error_is_told_with_its_code_in_one_line() -> None:
    assert NotManaged("topic 'x'\n is not here").told == "KPC-012: topic 'x' is not here"
    told = NotManaged(f"topic {'x' * 100_000!r} is not here; correct the name").told
    assert len(told) < 1_050
    assert told.startswith("KPC-012: topic 'xxx")
    assert told.endswith("xxx' is not here; correct the name")
    assert Malformed("/a/b", "is no JSON").told.startswith("KPC-050: /a/b: is no JSON; nothing was changed")
