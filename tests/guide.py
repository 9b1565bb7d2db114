"""The guide for operators: the page of operations, and a page for each action."""

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def guide() -> str:
    """The text of all its pages."""
    return "\n".join(page.read_text() for page in (DOCS / "operations.md", *sorted((DOCS / "howto").glob("*.md"))))
