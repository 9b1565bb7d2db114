"""Rows with a header: columns for a person, CSV for a program. Pure."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

NOBODY = "-"
"""The text of an empty cell for a person. In CSV the cell is empty."""
_SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"
"""Characters with which a formula begins. The last four are full-width forms of the others."""
_FORMULA = (*_SIGNS, "\t", "\r", "\n")
_WITHIN, _SIGN = r"(?<=[;\t\r\n])", f"(?=[{re.escape(_SIGNS)}])"
"""Where a formula may begin inside a cell, quoted or not, if a spreadsheet also separates cells by `;` or tab."""
_LATER_FORMULA = re.compile(_WITHIN + _SIGN)
_LATER_APOSTROPHE = re.compile(f"{_WITHIN}'{_SIGN}")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def visible(text: str) -> str:
    """Return a text from outside for printing: active and invisible characters escaped as in JSON, line breaks kept."""
    if all(map(str.isprintable, text.split("\n"))):
        return text
    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)


def visible_line(text: str) -> str:
    """Return `visible` of the text, with line breaks escaped too."""
    return visible(text).replace("\n", "\\n")


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return lines of RFC 4180. No cell is a formula for a spreadsheet."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_no_formula(cell) for cell in row] for row in rows)
    return out.getvalue().rstrip("\n")


def _no_formula(cell: str) -> str:
    """Return the cell, with an apostrophe before a formula. A number stays a number."""
    cell = _LATER_FORMULA.sub("'", cell)
    return f"'{cell}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else cell


def without_apostrophe(cell: str) -> str:
    """Return the cell's text before `csv_lines` added an apostrophe."""
    cell = _LATER_APOSTROPHE.sub("", cell)
    return cell[1:] if cell.startswith(tuple(f"'{begin}" for begin in _FORMULA)) else cell


@dataclass(frozen=True, slots=True)
class Table:
    """`none`: the text for a person if the table is empty. `merged`: number of leading cells shown once if repeated."""

    headers: Sequence[str]
    rows: Iterable[Sequence[str]]
    none: str
    merged: int = 0

    def __str__(self) -> str:
        """Return columns, each as wide as its widest cell."""
        cells = [[visible_line(cell) for cell in row] for row in self.rows]
        if not cells:
            return self.none
        blank = [""] * self.merged
        shown = [
            row if before[: self.merged] != row[: self.merged] or not self.merged else blank + row[self.merged :]
            for before, row in pairwise([[NOBODY * 2] * len(self.headers), *cells])
        ]
        lines = [[name.upper() for name in self.headers], *shown]
        widths = [max(len(row[column]) for row in lines) for column in range(len(self.headers))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in lines
        )

    @property
    def csv(self) -> str:
        """Return lines of RFC 4180 with a header, without merging cells."""
        rows = [["" if cell == NOBODY else cell.strip() for cell in row] for row in self.rows]
        return csv_lines([[name.strip() for name in self.headers], *rows])
