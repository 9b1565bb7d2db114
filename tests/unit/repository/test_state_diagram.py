"""The pictures in the documentation are those of the table, letter by letter."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from coordinator_tasks.core.machine.table import TRANSITIONS, Signal
from coordinator_tasks.core.model import State
from tests import state_diagram

DOCS = Path(__file__).parents[3] / "docs"
AGAIN = "print it anew with: python -m tests.state_diagram"


def test_the_committed_picture_is_the_table() -> None:
    assert (DOCS / "images" / "state-machine.svg").read_text() == state_diagram.svg(), f"{AGAIN} svg"


@pytest.mark.parametrize("kind", ["mermaid", "table"])
def test_the_page_holds_the_table(kind: str) -> None:
    made = state_diagram.mermaid() if kind == "mermaid" else state_diagram.markdown_table()
    assert made in (DOCS / "state-machine.md").read_text(), f"{AGAIN} {kind}"


def test_every_transition_is_drawn_and_every_label_lies_within_the_picture() -> None:
    root = ET.fromstring(state_diagram.svg())
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    words = " ".join("".join(text.itertext()) for text in texts)
    for edge in state_diagram.edges():
        assert all(words.count(signal.value.split(",")[0]) for signal in edge.signals)
    assert sum(len(edge.signals) for edge in state_diagram.edges()) == sum(len(row) for row in TRANSITIONS.values())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in texts:
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        assert 0 < x < width - 7 * len("".join(text.itertext())) / 2
        assert 0 < y < height


def test_another_table_gives_another_picture() -> None:
    changed = {**TRANSITIONS, State.INITIAL: {Signal.PLANNED_STARTS: State.STARTING}}
    assert state_diagram.svg(changed) != state_diagram.svg()
    assert state_diagram.mermaid(changed) != state_diagram.mermaid()
