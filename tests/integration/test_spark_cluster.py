"""The data source on a Spark standalone cluster: a master and two workers, the driver in this process.

The driver's own JVM belongs to the other tests, so the application is a process of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from coordinator_tasks.embedded.java import QUICK_START_OPTIONS, find_java
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.ports import HOST, free_port, listening
from coordinator_tasks.embedded.processes import ManagedProcess, ProcessSpec
from tests.integration.kafka_topics import new_topic, produce

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
APPLICATION = Path(__file__).with_name("cluster_application.py")
READY_S = 90.0
RUN_S = 240.0


def spark_process(name: str, folder: Path, port: int, main: str, *arguments: str) -> ManagedProcess:
    # Executors must find our packages where the application ships them, not by this environment.
    env = {
        "PYTHONPATH": "",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_HOME": _find_spark_home(),
        "PYSPARK_PYTHON": sys.executable,
    }
    classes = f"{_find_spark_home()}/jars/*"
    argv = (str(find_java().executable), *QUICK_START_OPTIONS, "-Xmx256m", "-cp", classes, main, *arguments)
    spec = ProcessSpec(name=name, argv=argv, log_path=folder / f"{name}.log", env=env)
    return ManagedProcess(spec, ready=lambda: listening(port))


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    port, deploy = free_port(), "org.apache.spark.deploy"
    arguments = ("--host", HOST, "--port", str(port), "--webui-port", str(free_port()))
    started = [spark_process("master", tmp_path, port, f"{deploy}.master.Master", *arguments)]
    try:
        started[0].start(READY_S)
        for number in range(2):
            page = free_port()
            # Spark starts no copy of a task on the host of the first.
            size = ("--host", f"127.0.0.{number + 1}", "--cores", "1", "--memory", "512m", "--webui-port", str(page))
            work = ("--work-dir", str(tmp_path / f"work-{number}"), f"spark://{HOST}:{port}")
            name = f"worker-{number}"
            started.append(spark_process(name, tmp_path, page, f"{deploy}.worker.Worker", *size, *work))
            started[-1].start(READY_S)
        yield f"spark://{HOST}:{port}"
    finally:
        for process in reversed(started):
            process.stop()


def test_executors_on_a_cluster_read_what_the_driver_was_assigned_also_when_one_dies_and_when_a_task_runs_twice(
    master: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = new_topic(kafka.bootstrap_servers, 4)
    for partition in range(4):
        produce(kafka.bootstrap_servers, topic, [b"v"] * 3000, partition)
    settings = tmp_path / "kafka.json"
    settings.touch(mode=0o600)
    settings.write_text(
        json.dumps(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "alice-secret",
            }
        )
    )
    command = [sys.executable, str(APPLICATION), master, kafka.bootstrap_servers, kafka.sasl_bootstrap_servers, topic]
    done = subprocess.run(
        [*command, str(settings), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["rows"] == 12_000
    assert found["distinct"] == 12_000
    assert found["workers"] == ["work-0", "work-1"], "both workers read"
    assert (tmp_path / "killed").exists(), "an executor died in the middle of a batch"
    assert (tmp_path / "copied").exists(), "a task ran twice at once"
    assert "alice-secret" not in found["plan"] + done.stdout + done.stderr
