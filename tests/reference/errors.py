"""The tables of the page on errors, by section: meaning and remedy of each code, from the docstrings of the errors."""

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import coordinator_tasks
import spark_apps
from coordinator_tasks.cli import EXITS, USAGE_CODE, USAGE_EXIT
from coordinator_tasks.cli.base import HELD_EXIT
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.audit import ALARMS, MEND, FindingKind
from tests.reference.form import ROOT, table

PAGE = ROOT / "docs" / "errors.md"
LEFT_OUT = ("spark_apps.startup",)
"""Modules that an import starts something in."""
BEGIN, END = "<!-- codes: begin -->\n", "<!-- codes: end -->\n"
SECTIONS = (
    ("The request or the settings", "Nothing was changed, unless a row says otherwise. ", (0, 1, 2)),
    ("Another process was faster", "Nothing was written, except as KPC-034 says. Repeat the command. ", (3,)),
    ("A neighbour does not answer", "", (4,)),
    ("Stored data", "Nothing was changed. ", (5,)),
    ("Of a consumer", "", (6,)),
    ("Local servers", "", (7,)),
    (
        "Findings of the ownership audit",
        "The [audit](howto/audit.md) compares ZooKeeper, each consumer's answers, and the commits in Kafka. The audit "
        "changes nothing. ",
        (8,),
    ),
    ("Dead letters", "See [dead letters](dead-letters.md). ", (9,)),
    ("State", "See [state](state.md) and KPC-066 to KPC-069. ", (10,)),
)
"""Title, remark, and the tens of the codes."""
USAGE = (
    "An unknown command or option, a missing option, or a value of the wrong type",
    "Add `--help` behind the command",
)
FINDINGS = {
    FindingKind.TWO_OWNERS: "Two consumers report running one partition: one is isolated but still runs, or cannot reach ZooKeeper "
    "and has lost the partition. Its commits are fenced, but records may be processed twice",
    FindingKind.NO_OWNER: "These partitions are not read: they have no owner, or the owner has ended, is isolated or absent, or "
    "does not run them. The next rebalance gives them to others, or the owner starts them again",
    FindingKind.INTRUDER: "A client without a token commits or subscribes with the topic's group, another cluster manages the same "
    "group, a consumer runs what ZooKeeper never gave it, or commits under a newer token than the owner's. The owner "
    "overwrites such commits; records may be read again",
    FindingKind.STALE: "A committed offset or a running partition has an older token than the owner's, or is of a former topic of "
    "this name: a process that was believed dead commits late",
    FindingKind.OLD_CODE: "A consumer runs another release than the coordinator, or another version of the code than its fleet asks "
    "for: normal during an upgrade",
    FindingKind.NO_WORD: "The owner's answer or Kafka's commit is missing: the interface does not answer, answers as another "
    "incarnation, acts on an older plan because the consumer has lost ZooKeeper, or offsets were deleted",
}


def errors() -> str:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "".join(_section(*section) for section in SECTIONS) + END + after


def _section(title: str, remark: str, tens: Collection[int]) -> str:
    rows = [row for row in codes() if int(row.code.removeprefix("KPC-")) // 10 in tens]
    cells = [row.cells() for row in rows]
    return f"## {title}\n\n{remark}{_exits(rows)}\n\n{table(('code', 'meaning', 'remedy'), cells)}\n"


def _exits(rows: Collection["Row"]) -> str:
    """Name the usual exit code of the section, and the rows with another exit code."""
    usual = Counter(row.exit for row in rows).most_common(1)[0][0]
    others = [f", {row.code}: {row.exit}" for row in rows if row.exit != usual]
    return f"Exit code {usual}{''.join(others)}."


class Row(NamedTuple):
    """`kind`: the class of the error, empty for findings and the command line."""

    code: str
    kind: str
    meaning: str
    remedy: str
    exit: int

    def cells(self) -> tuple[str, ...]:
        kind = f" `{self.kind}`" if self.kind else ""
        return f'<a id="{self.code.lower()}"></a>{self.code}{kind}', self.meaning, self.remedy


def codes() -> list[Row]:
    found = [Row(kind.code, kind.__name__, *_texts(kind), exit_of(kind)) for kind in kinds()]
    found.append(Row(USAGE_CODE, "", *USAGE, USAGE_EXIT))
    found += [Row(one.value, "", FINDINGS[one], _sentence(MEND[one]), _exit_of_audit(one)) for one in FindingKind]
    return sorted(found)


def _texts(kind: type[CoordinatorError]) -> tuple[str, str]:
    """Meaning and remedy: the first two paragraphs of the docstring."""
    meaning, remedy = (" ".join(one.split()) for one in (inspect.getdoc(kind) or "").split("\n\n")[:2])
    return meaning.removesuffix("."), _sentence(remedy.removeprefix("Remedy: ").removesuffix("."))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def exit_of(kind: type[CoordinatorError]) -> int:
    """Of a command that ends with it."""
    return next((number for base, number in EXITS.items() if issubclass(kind, base)), HELD_EXIT)


def _exit_of_audit(kind: FindingKind) -> int:
    return HELD_EXIT if kind in ALARMS else 0


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
