"""How a page of the reference is written, and what stands at its head."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = "Made from the code by `python -m tests.reference`; a test compares it.\n"


def meanings(text: str) -> str:
    """Sentences, and a table of the lines `fields | meaning` of a text in `coordinator_tasks.core.codecs.fields`."""
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
