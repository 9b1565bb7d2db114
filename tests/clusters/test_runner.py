"""What the runner of the cluster tests notes and says."""

from pathlib import Path

from tests.clusters import __main__ as runner


def test_what_a_test_recorded_is_read_from_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuite><testcase><properties><property name="registered_s" value="38"/></properties></testcase></testsuite>'
    )
    assert runner.figures(report) == {"registered_s": "38"}
    assert runner.figures(tmp_path / "none.xml") == {}


def test_a_test_that_was_skipped_has_not_passed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuite><testcase><skipped message="there is no runc here"/></testcase></testsuite>')
    assert runner.skipped(report) == "there is no runc here"
    report.write_text("<testsuite><testcase/></testsuite>")
    assert runner.skipped(report) == runner.skipped(tmp_path / "none.xml") == ""
