"""The figures at the head of the page on measurements are cells of the full tables."""

import re

import pytest

from benchmarks.figures import FIGURES, markdown


def table(head: str, *rows: str) -> str:
    return "\n".join(["Measured somewhere.", "", head, "|---|", *rows])


def test_without_one_of_the_tables_there_are_no_figures() -> None:
    assert markdown({one.table: "" for one in FIGURES[1:] if one.table != FIGURES[0].table}) == ""


def test_a_row_that_a_table_has_no_longer_is_named() -> None:
    with pytest.raises(LookupError, match=re.escape("no row 'join' below | event | p50 |")):
        markdown({one.table: table("| event | p50 |", "| drain | 1 |") for one in FIGURES})
