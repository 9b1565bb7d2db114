"""The command line as its own process, against a real ZooKeeper and a real broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
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
