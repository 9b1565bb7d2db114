"""Kafka's jars: fetched once for any number of callers, complete or not at all; every failure says what to do.

Another checksum than the frozen checksum is refused.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.errors import JarsUnavailable

pytestmark = pytest.mark.integration

FETCH_TIMEOUT_S = 60.0

# Stands in for the registry: "resolves" the packages by copying the ones that a real fetch has brought.
FETCHER = """#!/bin/sh
echo fetched >> {count}
for argument; do case $argument in spark.jars.ivy=*) folder=${{argument#spark.jars.ivy=}};; esac; done
mkdir "$folder/jars" && cp {source}/*.jar "$folder/jars" && sleep 0.5
{afterwards}
"""

ASKER = """
import sys
from pathlib import Path
from coordinator_tasks.devstack.embedded import jars
jars.pyspark_home = lambda: Path(sys.argv[1])
print(jars.ensure_kafka_jars())
"""


@pytest.fixture(scope="module")
def fetched() -> Path:
    return jars.ensure_kafka_jars()


def make_fetcher(folder: Path, source: Path, afterwards: str = "") -> Path:
    program = folder / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(FETCHER.format(count=folder / "count", source=source, afterwards=afterwards))
    program.chmod(0o755)
    return folder


def test_two_processes_that_ask_at_once_fetch_once(tmp_path: Path, fetched: Path) -> None:
    home = make_fetcher(tmp_path / "pyspark", fetched)
    environment = {**os.environ, "COORDINATOR_CACHE": str(tmp_path / "cache")}
    askers = [
        subprocess.Popen([sys.executable, "-c", ASKER, home], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {asker.communicate(timeout=FETCH_TIMEOUT_S)[0].strip() for asker in askers}
    folder = tmp_path / "cache" / f"kafka-{jars.KAFKA_VERSION}"
    assert answers == {str(folder)}
    assert (home / "count").read_text() == "fetched\n"
    assert {jar.name for jar in folder.iterdir()} == {jar.name for jar in fetched.iterdir()}


@pytest.mark.parametrize(
    ("afterwards", "message"),
    [
        ('rm "$folder"/jars/org.apache.kafka_kafka_2.13-*.jar', "1 of Kafka .* start again"),
        ('echo damage >> "$folder"/jars/org.yaml_snakeyaml-2.5.jar', "1 of Kafka .* start again"),
        ("exit 1", "could not be fetched .* start again"),
    ],
    ids=["one is missing", "one is damaged", "the registry is not reached"],
)
def test_what_is_not_complete_is_refused_and_leaves_nothing(
    tmp_path: Path, fetched: Path, monkeypatch: pytest.MonkeyPatch, afterwards: str, message: str
) -> None:
    home = make_fetcher(tmp_path / "pyspark", fetched, afterwards)
    monkeypatch.setattr(jars, "pyspark_home", lambda: home)
    monkeypatch.setenv("COORDINATOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(JarsUnavailable, match=message):
        jars.ensure_kafka_jars()
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
