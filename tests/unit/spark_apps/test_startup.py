"""The import path of the Python processes that Spark starts."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark

from spark_apps.spark.session import ROOT, STARTUP, python_environment, start_fast

LIB = Path(pyspark.__file__).parent / "python" / "lib"


def imported_from(*python_path: Path) -> str:
    code = "import importlib.util as u; print(u.find_spec('pyspark').origin)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, python_path))}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_pyspark_comes_from_its_installation() -> None:
    assert imported_from(LIB / "pyspark.zip").startswith(str(LIB / "pyspark.zip"))
    assert imported_from(LIB / "pyspark.zip", STARTUP) == pyspark.__file__


def test_a_zip_without_an_installation_stays(tmp_path: Path) -> None:
    copy = tmp_path / "pyspark.zip"
    copy.symlink_to(LIB / "pyspark.zip")
    assert imported_from(copy, STARTUP).startswith(str(copy))


def test_the_environment_for_spark_submit_keeps_what_was_there() -> None:
    first = python_environment({"PYTHONPATH": "/mine", "PYSPARK_PYTHON": "/usr/bin/python3"})
    assert first == {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(STARTUP), "/mine"]),
        "PYSPARK_PYTHON": "/usr/bin/python3",
        "PYSPARK_DRIVER_PYTHON": "/usr/bin/python3",
    }
    assert python_environment(first) == first


def test_a_session_of_spark_submit_starts_its_python_processes_from_the_installation_too() -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(environment={"PYTHONPATH": "/mine"}))
    for _ in range(2):
        start_fast(cast(Any, spark))
        assert spark.sparkContext.environment == {"PYTHONPATH": f"{STARTUP}{os.pathsep}/mine"}
