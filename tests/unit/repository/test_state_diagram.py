"""The pictures in the documentation are those of the table, letter by letter."""

from pathlib import Path

from tests import state_diagram

DOCS = Path(__file__).parents[3] / "docs"
AGAIN = "print it anew with: python -m tests.state_diagram"


def test_the_committed_picture_is_the_table() -> None:
    assert (DOCS / "images" / "state-machine.svg").read_text() == state_diagram.svg(), f"{AGAIN} svg"
