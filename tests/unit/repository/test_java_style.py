"""The form of the Java sources is checked, and the compiler's warnings count."""

from pathlib import Path

import pytest

from tests.java_style import problems

pytestmark = pytest.mark.rest

NOT_FORMATTED = "package example;\n\nclass Example {\n  int  number ;\n}\n"
FORMATTED = "package example;\n\nclass Example {\n    int number;\n}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "sources").mkdir()
    (tmp_path / "tests").mkdir()
    return tmp_path / "sources" / "Example.java"


def found(source: Path, *, write: bool = False) -> str:
    return problems(source.parent, source.parents[1] / "tests", write=write)


def test_a_source_that_is_not_formatted_is_named_and_can_be_formatted(source: Path) -> None:
    source.write_text(NOT_FORMATTED)
    assert found(source) == f"not formatted, run make format:\n{source}\n"
    assert found(source, write=True) == ""
    assert source.read_text() == FORMATTED
    assert found(source) == ""


def test_a_warning_of_the_compiler_is_shown(source: Path) -> None:
    source.write_text(FORMATTED.replace("int number;", "private int number;"))
    assert "The value of the field Example.number is not used" in found(source)


def test_a_source_that_cannot_be_read_is_no_success(source: Path) -> None:
    source.write_text("class {")
    assert "Example.java:1:7" in found(source)
