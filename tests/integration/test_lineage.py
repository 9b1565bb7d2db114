"""Real consumers, with Spark and without, tell OpenLineage which topic they read and where it goes: by a file as the transport."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from tests.integration.agent_site import Site, wait_for
from tests.integration.test_agent_spark import SparkProcess

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]


def told(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def test_a_topic_and_its_sink_are_told_when_a_consumer_begins_and_ends(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, config = tmp_path / "events", tmp_path / "openlineage.json"
    config.write_text(json.dumps({"transport": {"type": "file", "log_file_path": str(events), "append": True}}))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    site.assign({})  # the topic is there before its consumers are
    options = ("--sink", str(tmp_path / "b.rows"), "--close-timeout", "5")
    argv = (sys.executable, "-m", "spark_apps.plain", "--consumer", "b", *options)
    member = site.paths.member("b")
    plain = ManagedProcess(
        ProcessSpec("b", (*argv, *site.where), tmp_path / "b.log"), lambda: site.zk.find(member) is not None
    )
    spark = SparkProcess(site, "a", tmp_path)
    try:
        plain.start()
        spark.registered()
        site.assign({0: "a", 1: "a", 2: "b", 3: "b"})
        site.produce(10)
        wait_for(
            lambda: all(one.offset == 10 for one in site.committed().values()) and len(site.committed()) == 4,
            "read",
            60,
        )
        os.kill(plain.pid, signal.SIGTERM)
        assert spark.leave() == 0
        wait_for(lambda: not plain.running, "the plain consumer has left", 60)
    finally:
        spark.close()
        plain.kill()
    by_consumer: dict[str, list[dict[str, Any]]] = {}
    for event in told(events):
        tags = {tag["key"]: tag["value"] for tag in event["run"]["facets"]["tags"]["tags"]}
        by_consumer.setdefault(tags["consumer"], []).append(event)
    sinks = {"a": str(tmp_path / "rows"), "b": str(tmp_path / "b.rows")}
    assert by_consumer.keys() == sinks.keys()
    for consumer, sink in sinks.items():
        begin, end = by_consumer[consumer]
        assert (begin["eventType"], end["eventType"]) == ("START", "COMPLETE")
        assert begin["run"]["runId"] == end["run"]["runId"]
        assert begin["job"]["name"] == f"{site.cluster}.{site.group}.{site.topic}"
        assert [(one["namespace"], one["name"]) for one in end["inputs"]] == [(f"kafka://{site.kafka}", site.topic)]
        assert [(one["namespace"], one["name"]) for one in end["outputs"]] == [("file", sink)]
