"""The demonstration runs with what `make install` has installed, whatever else the shell is set up for."""

import sys
from pathlib import Path

import pytest

from coordinator_tasks.demo.stack import Folders, Stack
from coordinator_tasks.embedded.jars import pyspark_home


def test_consumers_run_on_the_installed_spark_and_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "/opt/another")
    stack = Stack.__new__(Stack)  # without its servers
    stack.folders = Folders(tmp_path)
    environment = stack._environment()
    assert environment["SPARK_HOME"] == str(pyspark_home())
    assert environment["SPARK_CONF_DIR"] == str(pyspark_home() / "conf")
    assert {environment["PYSPARK_DRIVER_PYTHON"], environment["PYSPARK_PYTHON"]} == {sys.executable}
