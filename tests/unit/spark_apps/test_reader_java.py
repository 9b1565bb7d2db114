"""The tests of the reader in the JVM, `tests/jvm/*Test.java`: one Python test for each class of Java tests."""

from pathlib import Path

import pytest

from coordinator_tasks.devstack.reader_jar import SOURCES
from tests.junit import Result, run_junit

JAVA_TESTS = Path(__file__).parents[2] / "jvm"
FAILING = """
package partitioncoordinator.spark;

class ExampleTest {
    @org.junit.jupiter.api.Test
    void fails() {
        org.junit.jupiter.api.Assertions.assertEquals(1, 2);
    }

    @org.junit.jupiter.api.Test
    void passes() {}
}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    return run_junit([SOURCES], [JAVA_TESTS], tmp_path_factory.mktemp("junit"))


@pytest.mark.parametrize("name", sorted(file.stem for file in JAVA_TESTS.glob("*Test.java")))
def test_java(results: dict[str, list[Result]], name: str) -> None:
    assert results[name], "a class of tests has tests"
    failed = [f"{one.name}: {one.failure}" for one in results[name] if one.failure]
    assert not failed, "\n".join(failed)
    assert [one.name for one in results[name] if one.skipped] == []


def test_a_java_test_that_fails_is_reported_with_its_reason(tmp_path: Path) -> None:
    test = tmp_path / "ExampleTest.java"
    test.write_text(FAILING)
    found = {one.name: one.failure for one in run_junit([], [test], tmp_path)["ExampleTest"]}
    assert "expected: <1> but was: <2>" in found["fails()"]
    assert found["passes()"] == ""
