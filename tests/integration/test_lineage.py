"""Real consumers, with Spark and without, tell OpenLineage which topic they read and where it goes: by a file as the transport.

What Airflow launches is switched by Airflow's own settings; a consumer that something else starts, by OpenLineage's variables.
"""

import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS, AllowedLaunches
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, topics
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, wait_for
from tests.integration.airflow_site import airflow_of, cluster_of, eventually
from tests.integration.spark_submit import JAVA_OPTIONS
from tests.integration.test_agent_spark import SparkProcess

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Site]:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    yield made
    made.close()


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
    given = (*argv, "--cluster", site.cluster, "--zookeeper", site.zookeeper, "--kafka", site.kafka)
    member = site.paths.member("b")
    plain = ManagedProcess(ProcessSpec("b", given, tmp_path / "b.log"), lambda: site.zk.find(member) is not None)
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


# Launched by Airflow ---------------------------------------------------------------------------------------------------

GROUP = "billing"
EVENT = {"order_id": "A-17", "product": "tea", "quantity": 2, "price": "3.50", "ordered_at": "2026-11-21T08:15:30Z"}


def added(c: Coordinator, topic: str) -> bool:
    """A fresh broker makes its groups topic first, which may take longer than one request waits."""
    try:
        topics.add_topic(c, topic, GROUP, actor=Actor("command", "ada"))
    except KafkaUnavailable:
        return False
    return True


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("disabled", "kinds"), [("False", ["START", "COMPLETE"]), ("True", [])], ids=["on", "disabled"]
)
def test_airflows_own_setting_switches_what_a_consumer_tells_that_a_dag_launches(
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    airflow_factory: Callable[..., EmbeddedAirflow],
    tmp_path: Path,
    disabled: str,
    kinds: list[str],
) -> None:
    options = "spark.driver.extraJavaOptions"
    settings = cluster_of(zookeeper, kafka, allowed=AllowedLaunches(conf=options, folders=str(tmp_path)))
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    events, database = tmp_path / "events", str(tmp_path / "orders.sqlite")
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    openlineage = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "prod",
        "AIRFLOW__OPENLINEAGE__DISABLED": disabled,
    }
    arguments = (f"--pipeline={topic}=spark_apps.pipelines.orders:build", f"--set=database=sqlite:///{database}")
    light = {"spark.ui.enabled": "false", "spark.driver.memory": "512m", options: JAVA_OPTIONS}
    ConfluentKafkaAdmin(settings.kafka).create_topic(topic, 2)
    producer, offsets = Producer(settings.kafka), ConfluentGroupOffsets(settings.kafka, GROUP)
    for number in range(10):
        producer.produce(topic, json.dumps(EVENT), partition=number % 2)
    assert producer.flush(30) == 0
    dags = {"rebalance", "reconcile", "consumers"}
    folder = RunFolder.of(tmp_path, settings.cluster, "a")
    with (
        open_coordinator(settings) as c,
        airflow_of(settings, airflow_factory, dags, base=tmp_path, env=openlineage),
    ):
        eventually(lambda: added(c, topic))
        fleet.set_fleet(c, Fleet("light", OWN_APPLICATIONS[0], ("a",), arguments, light))
        eventually(lambda: [one.offset for one in offsets.committed(topic, (0, 1)).values()] == [5, 5], 300)
        fleet.set_fleet(c, Fleet("light", OWN_APPLICATIONS[0], ()))
        os.kill(int(folder.lock.read_text()), signal.SIGTERM)
        eventually(lambda: folder.exit_code() is not None, 60)
    assert [one["eventType"] for one in told(events)] == kinds
    for one in told(events):
        assert (one["job"]["namespace"], one["job"]["name"]) == ("prod", f"{settings.cluster}.{GROUP}.{topic}")
        assert [found["name"] for found in one["inputs"]] == [topic]
        tables = ("orders", "dead_letters", "revenue")
        assert [found["name"] for found in one["outputs"]] == [f"{database}#{table}" for table in tables]
