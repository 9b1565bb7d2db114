"""Spark's UI asks nobody who they are: no one may stop a job there, and a local driver listens on loopback alone."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.run_folder import RunFolder
from spark_apps.launch.launcher import main
from tests.integration import ui_application
from tests.integration.spark_submit import JAVA_OPTIONS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("site", "job"), [((), "finished"), (("--conf", "spark.ui.killEnabled=true"), "killed")], ids=["by default", "site"]
)
def test_the_ui_of_a_launched_consumer_stops_no_job_and_listens_on_loopback(
    site: tuple[str, ...], job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = RunFolder.of(tmp_path, "c", "a")
    command = ["spark-submit", "--master", "local[1]", "--driver-java-options", JAVA_OPTIONS, *site]
    command += ["--conf", f"spark.ui.port={free_port()}", str(Path(ui_application.__file__))]
    assert main(["--cluster", "c", "--consumer", "a", "--base", str(tmp_path), "--", *command]) == 0
    deadline_s = time.monotonic() + 240
    while folder.exit_code() is None and time.monotonic() < deadline_s:
        time.sleep(0.2)
    lines = [line for line in folder.log.read_text().splitlines() if line.startswith('{"job"')]
    said = [json.JSONDecoder().raw_decode(line)[0] for line in lines]  # the JVM may write behind a line's end
    assert said == [{"job": job, "listens": ["127.0.0.1"]}], folder.log_tail()
