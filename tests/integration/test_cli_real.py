"""The command line as its own process, against a real ZooKeeper and a real broker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper

pytestmark = pytest.mark.integration
TOPIC = "cli-orders"


@pytest.fixture(scope="module")
def environment(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Mapping[str, str]:
    ConfluentKafkaAdmin({"bootstrap.servers": kafka.bootstrap_servers}).create_topic(TOPIC, 4)
    return {
        **os.environ,
        "COORDINATOR_CLUSTER": "cli-site",
        "COORDINATOR_ZOOKEEPER": zookeeper.connect_string,
        "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "COORDINATOR_ANSWER_TIMEOUT_S": "5",
    }


def coordinator(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coordinator_tasks", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_topic_is_added_listed_planned_and_removed(environment: Mapping[str, str]) -> None:
    added = coordinator(environment, "add-topic", TOPIC, "--group", "cli-group")
    assert (added.returncode, added.stderr) == (0, "")
    again = coordinator(environment, "add-topic", TOPIC, "--group", "cli-group", "--json")
    assert json.loads(again.stdout)["initial_partitions"] == 4

    ended = coordinator(environment, "topics", "--json")
    assert ended.returncode == 1, "nobody owns its partitions"
    (listed,) = json.loads(ended.stdout)
    assert (listed["topic"], listed["state"], listed["unowned"]) == (TOPIC, "Initial", [0, 1, 2, 3])

    planned = coordinator(environment, "plan", "--dry-run")
    assert planned.returncode == 0
    assert "no live consumer is there to take partitions" in planned.stdout
    assert coordinator(environment, "remove-topic", TOPIC, "--yes").returncode == 0


def test_the_loop_ends_on_sigterm(environment: Mapping[str, str]) -> None:
    loop = subprocess.Popen(
        [sys.executable, "-m", "coordinator_tasks", "run"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert loop.stdout is not None
        assert loop.stdout.readline().startswith("coordinating cluster cli-site")
        time.sleep(1)
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(15) == 0
    finally:
        loop.kill()
        loop.communicate()


def test_what_is_not_there_is_one_line(environment: Mapping[str, str]) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    ended = coordinator(
        {**environment, "COORDINATOR_ZOOKEEPER": nowhere, "COORDINATOR_ANSWER_TIMEOUT_S": "1"}, "topics"
    )
    assert ended.returncode == 3
    assert nowhere in ended.stderr
    assert ended.stderr.count("\n") == 1

    no_broker = {**environment, "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": nowhere, "COORDINATOR_ANSWER_TIMEOUT_S": "2"}
    ended = coordinator(no_broker, "add-topic", "elsewhere", "--group", "g")
    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1, ended.stderr
