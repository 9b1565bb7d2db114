"""The colours of the live page's grid: each is seen on the page, and none is taken for another, in both modes and by most eyes."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pytest
from coordinator_ui.data.live import STATES
from coordinator_ui.pages.render import TEMPLATES

Colour: TypeAlias = Sequence[float]
"""Red, green and blue, linear, from 0 to 1."""
LEAST_APART = 25.0
"""Distance in CIELAB; neighbours on the former grid had 7 to 12."""
LUMINANCE = (0.2126, 0.7152, 0.0722)
EYES = {
    "most": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.0521)),
    "no green": ((0.3673, 0.8606, -0.2280), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9689)),
}
"""What an eye makes of red, green and blue (Machado, Oliveira and Fernandes 2009)."""


def modes() -> list[Mapping[str, Colour]]:
    """The variables of the stylesheet: light, dark by the system, dark by Airflow."""
    css = (TEMPLATES / "page.css").read_text()
    found = re.findall(r":root[^{]*\{ (color-scheme[^}]*)\}", css)
    return [{name: linear(value) for name, value in re.findall(r"--([\w-]+): (#\w+);", one)} for one in found]


def linear(value: str) -> Colour:
    digits = value[1:] if len(value) == 7 else "".join(2 * one for one in value[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def times(row: Sequence[float], colour: Colour) -> float:
    return min(1.0, max(0.0, sum(weight * part for weight, part in zip(row, colour, strict=True))))


def lab(colour: Colour) -> tuple[float, float, float]:
    rows = ((0.4339, 0.3762, 0.1899), LUMINANCE, (0.0177, 0.1095, 0.8728))
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (times(row, colour) for row in rows))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(("one", "other"), itertools.combinations(STATES, 2))
def test_no_state_is_taken_for_another(one: str, other: str, eye: str) -> None:
    for mode in modes():
        seen = [lab([times(row, mode[f"cell-{name}"]) for row in EYES[eye]]) for name in (one, other)]
        assert math.dist(*seen) >= LEAST_APART
