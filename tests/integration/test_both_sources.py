"""Spark's own Kafka source and ours on the same topics: the same columns, and the same records by the same options.

`test_reader_content.py` compares records of every kind.
"""

import os
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.errors import JarsUnavailable
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.java import find_java
from tests.integration.both_options import CASES, COUNTS, time_ms, topic_of
from tests.integration.kafka_topics import new_topic
from tests.spark_jars import CONNECTOR

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
RUN_S = 330.0
SOURCES = ("spark", "ours")
Rows = dict[tuple[str, int, int], dict[str, Any]]


@pytest.fixture(scope="module")
def connector() -> str:
    try:
        return ",".join(str(jar) for jar in sorted(jars.ensure_jars(CONNECTOR).glob("*.jar")))
    except JarsUnavailable as error:
        pytest.skip(str(error))


def fill(servers: str, prefix: str, case: str) -> None:
    """A topic whose records have times a second apart."""
    topic = new_topic(servers, len(COUNTS), name=topic_of(prefix, case), retention_ms="-1")
    producer = Producer({"bootstrap.servers": servers})
    for partition, count in enumerate(COUNTS):
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=time_ms(number))
    producer.flush(20)


@pytest.fixture(scope="module")
def found(connector: str, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, prefix = tmp_path_factory.mktemp("both"), f"both-{uuid.uuid4().hex[:8]}-"
    for case in CASES:
        fill(kafka.bootstrap_servers, prefix, case)
    command = [sys.executable, "-m", "tests.integration.both_sources", kafka.bootstrap_servers, prefix, str(folder)]
    done = subprocess.run(
        [*command, connector],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        "schemas": {name: (folder / f"{name}.schema").read_text() for name in SOURCES},
        **{f"{name}-{what}": rows(folder / f"{name}-{what}.parquet") for name in SOURCES for what in CASES},
    }


def rows(path: Path) -> Rows:
    listed = pq.read_table(path).to_pylist()
    found = {(row["topic"], row["partition"], row["offset"]): row for row in listed}
    assert len(found) == len(listed), "every record once"
    return found


def values(row: dict[str, Any]) -> dict[str, Any]:
    """The source's columns."""
    return {name: value for name, value in row.items() if name not in ("batch", "task")}


def test_the_columns_are_the_same(found: dict[str, Any]) -> None:
    assert found["schemas"]["ours"] == found["schemas"]["spark"]


@pytest.mark.parametrize("case", CASES)
def test_with_options_the_same_records_come_in_the_same_tasks(found: dict[str, Any], case: str) -> None:
    theirs, ours = found[f"spark-{case}"], found[f"ours-{case}"]
    first = CASES[case].first
    wanted = {(p, offset) for p, count in enumerate(COUNTS) for offset in range(first[p], count)}
    assert {key[1:] for key in theirs} == wanted
    assert [values(ours[key]) for key in sorted(ours)] == [values(theirs[key]) for key in sorted(theirs)]
    if CASES[case].tasks:
        assert tasks(ours) == tasks(theirs)
        assert len(tasks(ours)) == CASES[case].tasks


def tasks(rows: Rows) -> list[tuple[int, int]]:
    """For each task its partition and how many records it has read."""
    return sorted((p, count) for (_, _, p), count in Counter(map(task_of, rows.values())).items())


def task_of(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["batch"], row["task"], row["partition"]
