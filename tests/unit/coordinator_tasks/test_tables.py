"""CSV that a spreadsheet opens."""

import csv

import pytest

from coordinator_tasks.tables import csv_lines, without_apostrophe


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ('=HYPERLINK("http://x")', '"\'=HYPERLINK(""http://x"")"'),
        ("x;=cmd|' /C calc'!A0;", "x;'=cmd|' /C calc'!A0;"),
        ("x\t+1+1;y", "x\t'+1+1;y"),
        *((one, f"'{one}") for one in ("+1+1", "-1+1", "@SUM(1)", "-x", "\tx", "\uff1d1", "+A1")),
        *((one, one) for one in ("-12", "+3.5", "-1e-5", "12", "a=b", "", "orders-1")),
    ],
)
def test_a_spreadsheet_calculates_no_cell_and_a_number_stays_one(cell: str, written: str) -> None:
    assert csv_lines([[cell]]) == (written or '""')
    (row,) = csv.reader([csv_lines([[cell]])])
    assert [without_apostrophe(one) for one in row] == [cell]
