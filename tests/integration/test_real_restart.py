"""Restarts under the same id on real ZooKeeper and Kafka: kill -9 with nobody who reports the end, and planned ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Managed

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers))
    yield made
    made.close()


@pytest.fixture
def start(managed: Managed, tmp_path: Path) -> Iterator[Start]:
    """A plain consumer in a process of its own."""
    site = managed.site
    environment = {**os.environ, "COORDINATOR_SESSION_TIMEOUT_S": f"{site.session_timeout_s:g}"}
    with ExitStack() as ending:

        def started(name: str) -> subprocess.Popen[bytes]:
            where = ("--cluster", site.cluster, "--zookeeper", site.zookeeper, "--kafka", site.kafka)
            sink = ("--sink", str(tmp_path / f"{name}.jsonl"), "--close-timeout", "0.5")
            command = (sys.executable, "-m", "spark_apps.plain", "--consumer", name, *where, *sink)
            process = ending.enter_context(subprocess.Popen(command, cwd=ROOT, env=environment))
            ending.callback(process.kill)
            return process

        yield started


def holds(managed: Managed, incarnation: int) -> bool:
    return managed.node().incarnations.get("b") == incarnation


def begin(managed: Managed, start: Start) -> tuple[subprocess.Popen[bytes], int]:
    managed.join("a")
    process = start("b")
    managed.stable("ab")
    return process, managed.node().incarnations["b"]


def test_a_restart_beside_a_stopped_process_is_given_nothing_while_that_may_go_on(
    managed: Managed, start: Start
) -> None:
    with managed.looping():
        process, first = begin(managed, start)
        process.send_signal(signal.SIGSTOP)
        second = start("b")
        zk, path = managed.site.zk, managed.site.paths.member("b")

        def registered() -> bool:
            node = zk.find(path)
            return node is not None and f'"incarnation":{first}' not in node.data.decode().replace(" ", "")

        wait_for(registered, "the second b registers")
        until_s = time.monotonic() + 5.0
        while time.monotonic() < until_s:
            assert holds(managed, first)
            time.sleep(0.1)
        second.kill()
