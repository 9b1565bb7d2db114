"""Every kind of error that a person can meet has a code of its own, and the page on errors a row for each code."""

import inspect
import re
from collections import Counter

from coordinator_tasks.cli import USAGE_CODE
from coordinator_tasks.core.errors import Malformed, NotManaged
from coordinator_tasks.core.machine.audit import MEND, FindingKind
from tests.reference.errors import PAGE, codes, kinds


def test_each_kind_has_a_code_that_no_other_has() -> None:
    found = kinds()
    assert len(found) > 30
    assert {kind.__name__ for kind in found if "code" not in vars(kind)} == set()
    codes = Counter([*(kind.code for kind in found), *FindingKind])
    assert MEND.keys() == set(FindingKind)
    assert [code for code, times in codes.items() if times > 1] == []
    assert all(re.fullmatch(r"KPC-\d{3}", code) for code in codes)


def test_each_code_has_one_row_with_meaning_and_remedy() -> None:
    rows = codes()
    assert [row.code for row in rows] == sorted({kind.code for kind in kinds()} | {USAGE_CODE} | set(FindingKind))
    assert all(row.meaning and row.remedy for row in rows)
    without_remedy = [kind.__name__ for kind in kinds() if "\n\nRemedy: " not in (inspect.getdoc(kind) or "")]
    assert without_remedy == []
    assert re.findall(r'<a id="(.*?)"></a>', PAGE.read_text(encoding="utf-8")) == [row.code.lower() for row in rows]


def test_an_error_is_told_with_its_code_in_one_line() -> None:
    assert NotManaged("topic 'x'\n is not here").told == "KPC-012: topic 'x' is not here"
    told = NotManaged(f"topic {'x' * 100_000!r} is not here; correct the name").told
    assert len(told) < 1_050
    assert told.startswith("KPC-012: topic 'xxx")
    assert told.endswith("xxx' is not here; correct the name")
    assert Malformed("/a/b", "is no JSON").told.startswith("KPC-050: /a/b: is no JSON; nothing was changed")
