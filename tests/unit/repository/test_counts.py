"""What the pages count is what the lists have."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
FAULTS = PROJECT / "tests" / "faults"
PAGE = (PROJECT / "docs" / "reliability-faults.md").read_text()


def test_the_page_counts_the_points_of_death_as_they_are_listed() -> None:
    always, seldom = _points("points.txt")
    assert f"| points | {always + seldom}; {always} are met by every run, {seldom} now and then |" in PAGE
    always_further, seldom_further = _points("further_points.txt")
    assert f"| {always_further} that every run meets, {seldom_further} now and then |" in PAGE
    both = f"{seldom} of the join and the leave, {seldom_further} of the other scenarios"
    assert f"- {seldom + seldom_further} points are met now and then ({both})." in PAGE


def _points(name: str) -> tuple[int, int]:
    """How many every run meets, and how many only now and then."""
    lines = [line for line in (FAULTS / name).read_text().splitlines() if re.match(r"[^#\[]", line)]
    seldom = sum("?" in line for line in lines)
    return len(lines) - seldom, seldom
