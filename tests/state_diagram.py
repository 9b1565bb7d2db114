"""Pictures of the state machine, made from `table.TRANSITIONS` and from nothing else.

`python -m tests.state_diagram svg` or `mermaid` prints one; a test compares the committed picture. The layout is fixed for the four states: a new state needs a place in `_PLACES`.
"""

import math
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from coordinator_tasks.core.machine.table import TRANSITIONS, Signal
from coordinator_tasks.core.model import State

Table: TypeAlias = Mapping[State, Mapping[Signal, State]]
Point: TypeAlias = tuple[float, float]

_WIDTH, _HEIGHT = 1110, 840
_BOX_WIDTH, _BOX_HEIGHT, _LINE = 132, 52, 18
_LABEL_CHARS, _CHAR = 30, 6.6
_PLACES: Mapping[State, Point] = {
    State.INITIAL: (106, 420),
    State.STARTING: (425, 160),
    State.STABLE: (980, 420),
    State.CLOSING: (425, 680),
}
_FILLS: Mapping[State, str] = {
    State.INITIAL: "#f1f3f5",
    State.STARTING: "#e7f5ff",
    State.STABLE: "#ebfbee",
    State.CLOSING: "#fff4e6",
}
_LOOPS: Mapping[State, float] = {State.STARTING: -90, State.CLOSING: 90, State.STABLE: -90, State.INITIAL: 90}
"""In which direction a state's own loop points, in degrees clockwise from the right."""


@dataclass(frozen=True, slots=True)
class Edge:
    """All signals that lead from one state to another, in the table's order."""

    source: State
    target: State
    signals: tuple[Signal, ...]


def edges(table: Table = TRANSITIONS) -> tuple[Edge, ...]:
    """The table's arrows, one for each pair of states."""
    found: dict[tuple[State, State], list[Signal]] = {}
    for source, signals in table.items():
        for signal, target in signals.items():
            found.setdefault((source, target), []).append(signal)
    return tuple(Edge(source, target, tuple(signals)) for (source, target), signals in found.items())


def mermaid(table: Table = TRANSITIONS) -> str:
    """A Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {State.INITIAL}"]
    # A colon would end the label.
    lines += [
        f"    {edge.source} --> {edge.target}: {'<br/>'.join(signal.value.replace(':', ' –') for signal in edge.signals)}"
        for edge in edges(table)
    ]
    return "\n".join(lines) + "\n"


def svg(table: Table = TRANSITIONS) -> str:
    """A picture that needs no tool to look at."""
    drawn = edges(table)
    pairs = {(edge.source, edge.target) for edge in drawn}
    states = sorted({state for pair in pairs for state in pair} | {State.INITIAL}, key=list(State).index)
    arrows = [_arrow(edge, bent=(edge.target, edge.source) in pairs) for edge in drawn]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'role="img" aria-label="States of a topic and what leads from one to the other">',
        "<style>",
        "text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 13px; fill: #343a40; }",
        ".state { font-size: 17px; font-weight: 600; text-anchor: middle; dominant-baseline: central; }",
        ".arrow { fill: none; stroke: #495057; stroke-width: 1.6; marker-end: url(#head); }",
        "</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L10,5 L0,10 z" fill="#495057"/></marker></defs>',
        f'<rect x="1" y="1" width="{_WIDTH - 2}" height="{_HEIGHT - 2}" rx="12" fill="#ffffff" stroke="#dee2e6"/>',
        *(path for path, _ in arrows),
        *(label for _, label in arrows),
        *(_box(state) for state in states),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(state: State) -> str:
    x, y = _PLACES[state]
    left, top = x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="14" fill="{_FILLS[state]}" '
        f'stroke="#495057" stroke-width="1.6"/><text class="state" x="{x:g}" y="{y:g}">{escape(state.value)}</text>'
    )


def _arrow(edge: Edge, *, bent: bool) -> tuple[str, str]:
    """The path of an arrow and its label."""
    if edge.source is edge.target:
        return _loop(edge)
    start, end = _PLACES[edge.source], _PLACES[edge.target]
    length = math.dist(start, end)
    # To the left of the direction of travel, so that the two arrows of a pair keep apart; a single one bends outwards.
    normal = ((end[1] - start[1]) / length, (start[0] - end[0]) / length)
    if not bent and normal[1] * ((start[1] + end[1]) / 2 - _HEIGHT / 2) < 0:
        normal = (-normal[0], -normal[1])
    bend = 62.0 if bent else 30.0
    control = ((start[0] + end[0]) / 2 + normal[0] * bend, (start[1] + end[1]) / 2 + normal[1] * bend)
    first, last = _border(edge.source, control), _border(edge.target, control)
    middle = tuple((a + 2 * b + c) / 4 for a, b, c in zip(first, control, last, strict=True))
    path = f'<path class="arrow" d="M{_at(first)} Q{_at(control)} {_at(last)}"/>'
    return path, _label(edge.signals, (middle[0] + normal[0] * 10, middle[1] + normal[1] * 10), normal)


def _loop(edge: Edge) -> tuple[str, str]:
    x, y = _PLACES[edge.source]
    angle = math.radians(_LOOPS[edge.source])
    out = (math.cos(angle), math.sin(angle))
    base, top = y + out[1] * _BOX_HEIGHT / 2, y + out[1] * (_BOX_HEIGHT / 2 + 52)
    path = f'<path class="arrow" d="M{x - 26:g},{base:g} C{x - 44:g},{top:g} {x + 44:g},{top:g} {x + 26:g},{base:g}"/>'
    return path, _label(edge.signals, (x, base + out[1] * 46), out)


def _border(state: State, towards: Point) -> Point:
    """Where the line from the middle of a box towards a point leaves the box."""
    x, y = _PLACES[state]
    dx, dy = towards[0] - x, towards[1] - y
    scale = min(
        (_BOX_WIDTH / 2 + 3) / abs(dx) if dx else math.inf,
        (_BOX_HEIGHT / 2 + 3) / abs(dy) if dy else math.inf,
    )
    return x + dx * scale, y + dy * scale


def _label(signals: Iterable[Signal], at: Point, outward: Point) -> str:
    """A block of lines, one side of it at the arrow, that grows away from it."""
    lines = [line for signal in signals for line in textwrap.wrap(f"• {signal}", _LABEL_CHARS, subsequent_indent="  ")]
    width, height = max(map(len, lines)) * _CHAR, _LINE * len(lines)
    left = at[0] if outward[0] > 0.25 else at[0] - width if outward[0] < -0.25 else at[0] - width / 2
    top = at[1] - height * (1 - outward[1]) / 2 + _LINE * 0.75
    rows = [
        f'<text x="{left + (_CHAR * 2 if line[0] == " " else 0):.1f}" y="{top + _LINE * number:.1f}">{escape(line.strip())}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join(rows)


def _at(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


if __name__ == "__main__":
    sys.stdout.write({"svg": svg, "mermaid": mermaid}[sys.argv[1]]())
