"""The demonstration runs with the packages of `make install`, and ends all its processes."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_tasks.devstack.demo import stack as module
from coordinator_tasks.devstack.demo.stack import DemoFailed, Folders, Stack, occupy
from coordinator_tasks.devstack.embedded.jars import pyspark_home


def test_consumers_run_on_the_installed_spark_and_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", *clusters):
        monkeypatch.setenv(name, "/opt/another")
    stack = Stack.__new__(Stack)  # without servers
    stack.folders = Folders(tmp_path)
    environment = stack._environment()
    assert environment["SPARK_HOME"] == str(pyspark_home())
    assert environment["SPARK_CONF_DIR"] == str(pyspark_home() / "conf")
    assert {environment["PYSPARK_DRIVER_PYTHON"], environment["PYSPARK_PYTHON"]} == {sys.executable}
    assert [environment.get(name) for name in clusters] == ["", ""]


def test_what_starts_while_everything_is_ended_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        time.sleep(0.2)
        started.append(subprocess.Popen(["sleep", "60"]))
        started[0].wait()

    monkeypatch.setattr(module, "reap_all", lambda **_: [one.kill() for one in started])
    stack = Stack.__new__(Stack)
    stack._starting, stack._servers = ThreadPoolExecutor(1), []
    stack._airflow = stack._starting.submit(start)  # type: ignore[assignment]
    time.sleep(0.05)
    stack.end()
    assert stack._airflow.done()
    assert [one.poll() for one in started] == [-9]


@pytest.mark.parametrize("name", ["a,b", "what?"])
def test_a_folder_that_a_server_takes_for_another_is_refused_before_a_start(tmp_path: Path, name: str) -> None:
    folders = Folders(tmp_path / name / "demo")
    (sign,) = set(name) & set(",?")
    with pytest.raises(DemoFailed, match=re.escape(f"{folders.base} has '{sign}' in its path")):
        occupy(folders)
    assert not folders.base.exists()
