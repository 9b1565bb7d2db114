"""The diagram in the documentation is the table's."""

from pathlib import Path

from tests import state_diagram

PAGE = Path(__file__).parents[3] / "docs" / "state-machine.md"


def test_the_diagram_in_the_page_is_the_table() -> None:
    assert f"```mermaid\n{state_diagram.mermaid()}```\n" in PAGE.read_text(), (
        "print the diagram anew with: python -m tests.state_diagram"
    )
