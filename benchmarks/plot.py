"""Lines as SVG, without a plotting library: rows of small charts with linear axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1b6ca8", "#c0392b", "#27864a", "#8e44ad", "#b9770e", "#555555", "#148f9d", "#d35f8d")


@dataclass(frozen=True, slots=True)
class Line:
    """Points in ascending order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


PANEL_WIDTH, PANEL_HEIGHT, MARGIN, HEAD, FOOT = 250, 90, 52, 20, 40


@dataclass(frozen=True, slots=True)
class Panel:
    """A small chart whose linear axes begin at 0. All its lines have points."""

    name: str
    lines: Sequence[Line]


def panels(rows: Sequence[Sequence[Panel]], x_name: str) -> str:
    """Return the whole file: charts side by side in each row, with the legend in the first."""
    width = max(map(len, rows)) * (PANEL_WIDTH + MARGIN) + MARGIN // 2
    height = HEAD + len(rows) * (PANEL_HEIGHT + FOOT) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, line in enumerate(rows[0][0].lines):
        parts.append(f'<text x="{MARGIN + 90 * number}" y="14" fill="{COLOURS[number]}">{escape(line.name)}</text>')
    parts.append(f'<text x="{width - 10}" y="14" text-anchor="end">{escape(x_name)} across</text>')
    for down, row in enumerate(rows):
        for across, panel in enumerate(row):
            left, top = MARGIN + across * (PANEL_WIDTH + MARGIN), HEAD + FOOT // 2 + down * (PANEL_HEIGHT + FOOT)
            parts += _chart(panel, left, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _chart(panel: Panel, left: float, top: float) -> list[str]:
    points = [point for line in panel.lines for point in line.points]
    most_x, most_y = (max([1e-9, *(point[axis] for point in points)]) for axis in (0, 1))
    bottom = top + PANEL_HEIGHT
    parts = [
        f'<text x="{left}" y="{top - 5}">{escape(panel.name)}</text>',
        f'<path d="M{left} {top}V{bottom}H{left + PANEL_WIDTH}" fill="none" stroke="#999"/>',
        f'<text x="{left - 4}" y="{top + 8}" text-anchor="end">{most_y:,.4g}</text>',
        f'<text x="{left - 4}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{left + PANEL_WIDTH}" y="{bottom + 12}" text-anchor="end">{most_x:.2g}</text>',
    ]
    for colour, line in zip(COLOURS, panel.lines, strict=False):
        places = " ".join(
            f"{left + PANEL_WIDTH * x / most_x:.0f},{bottom - PANEL_HEIGHT * y / most_y:.1f}" for x, y in line.points
        )
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
    return parts
