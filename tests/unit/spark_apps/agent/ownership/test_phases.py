"""The phases of a partition: the page draws the table, and every phase is reached and left."""

from pathlib import Path

import pytest

from coordinator_tasks.core.model import Token
from coordinator_tasks.core.protocol.holding import Grant, Via
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import TRANSITIONS, Event, Phase

PAGE = Path(__file__).parents[5] / "docs" / "architecture.md"
ARROWS = [(phase, event, target) for phase, row in TRANSITIONS.items() for event, target in row.items()]


def diagram() -> str:
    """The table as a Mermaid diagram, one arrow for each pair of phases."""
    labels: dict[tuple[Phase, Phase], list[Event]] = {}
    for phase, event, target in ARROWS:
        labels.setdefault((phase, target), []).append(event)
    first = ["[*] --> claiming: granted, and the sink keeps the positions", "[*] --> fetching: granted"]
    arrows = [f"{phase} --> {target}: {'<br/>or: '.join(found)}" for (phase, target), found in labels.items()]
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in first + arrows)])


def test_the_page_draws_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text()


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_is_on_a_way_to_ready(phase: Phase) -> None:
    reached = {phase}
    for _ in Phase:
        reached |= {target for source, _, target in ARROWS if source in reached}
    assert Phase.READY in reached


def test_every_event_changes_a_phase() -> None:
    assert {event for _, event, _ in ARROWS} == set(Event)


def test_what_the_table_does_not_have_is_a_defect_and_changes_nothing() -> None:
    held = OwnedPartition(Grant(0, Token(1, 5), Via.ASSIGNED), "id-1", 0)
    with pytest.raises(KeyError):
        held.advance(Event.COMMITTED)
    assert held.phase is Phase.FETCHING
