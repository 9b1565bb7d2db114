"""How a page of the reference is written, and what stands at its head."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = "Made from the code by `python -m tests.reference`; a test compares it.\n"


def page(title: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", MADE, *parts]).rstrip() + "\n"


def row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join([row(*head), "|" + "---|" * len(head), *(row(*one) for one in rows)]) + "\n"
