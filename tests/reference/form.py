"""How a page of the reference is written, and what stands at its head."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATUS = "The status of a consumer"
"""Title of the section of `fields.md` that is no node."""
MADE = "Made from the code by the build of the site.\n"


def sections() -> dict[str, str]:
    """Title of each section of `fields.md` → its text."""
    _, *found = Path(__file__).with_name("fields.md").read_text(encoding="utf-8").split("\n## ")
    return {title: text for title, _, text in (one.partition("\n") for one in found)}


def meanings(text: str) -> str:
    """Sentences, and a table of the lines `fields | meaning` of a section of `fields.md`."""
    about, rows = list[str](), list[list[str]]()
    for line in text.strip().splitlines():
        if " | " in line:
            rows.append(line.split(" | "))
        elif line.startswith("    "):
            rows[-1][1] += f" {line.strip()}"
        else:
            about.append(line)
    fields = table(("field", "meaning"), [tuple(one) for one in rows]) if rows else ""
    return "\n".join(about).strip() + f"\n\n{fields}" if about else fields


def page(title: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", MADE, *parts]).rstrip() + "\n"


def row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join([row(*head), "|" + "---|" * len(head), *(row(*one) for one in rows)]) + "\n"


OFTEN = 4
"""Tables with the same row from which on the row stands once, at the head of the page."""
Row = tuple[str, ...]


def common(tables: Iterable[Sequence[Row]]) -> Mapping[str, Row]:
    """Name → the row that `OFTEN` or more tables have; of several rows with one name, the most frequent row."""
    found: dict[str, Row] = {}
    for one, times in Counter(row for rows in tables for row in rows).most_common():
        if times >= OFTEN:
            found.setdefault(one[0], one)
    return dict(sorted(found.items()))


def own_table(head: Row, rows: Sequence[Row], shared: Mapping[str, Row], where: str) -> str:
    """The rows that are not shared as a table, and the names of the shared rows."""
    own = [one for one in rows if shared.get(one[0]) != one]
    names = ", ".join(one[0] for one in rows if shared.get(one[0]) == one)
    return "\n".join(
        [
            *([table(head, own)] if own else []),
            *([f"[{where}](#{where.lower().replace(' ', '-')}): {names}.\n"] if names else []),
        ]
    )
