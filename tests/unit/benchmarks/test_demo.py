"""The benchmark of the demonstration ends with a run that failed, whatever it failed of."""

import subprocess
from types import SimpleNamespace

import pytest

from benchmarks import demo


def test_a_demonstration_that_failed_without_a_report_is_not_said_to_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    with pytest.raises(SystemExit, match=r"^the demonstration failed: its last lines say why$"):
        demo.measure(1)
