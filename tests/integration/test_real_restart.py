"""Restarts under the same id on real ZooKeeper and Kafka: kill -9 with nobody who reports the end, and planned ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
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


def taken_by_another(managed: Managed, first: int) -> bool:
    """Whether the topic is Stable, and b's partitions are granted to another life of it."""
    node = managed.node()
    return set(node.assignments.values()) == {"a", "b"} and not holds(managed, first) and managed.state() == "Stable"


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


def test_planned_restarts_by_the_recipe_leave_the_topic_stable(managed: Managed, start: Start) -> None:
    """More of them than make an id flap."""
    with managed.looping(), open_coordinator(managed.site.settings) as c:
        process, _ = begin(managed, start)
        before = dict(managed.node().assignments)
        for _ in range(Policy().flap_registrations + 1):
            epoch, first = managed.node().epoch, managed.node().incarnations["b"]
            directives.expect_restart(c, "b", 120.0, moves=False, by="ada", why="kernel")
            process.terminate()
            while process.poll() is None:
                assert managed.state() == "Stable"
                time.sleep(0.02)
            time.sleep(1.0)
            assert (managed.state(), managed.node().epoch) == ("Stable", epoch), managed.history()[-1].cause
            process = start("b")
            wait_for(partial(taken_by_another, managed, first), "the next b has partitions")
            assert managed.node().assignments == before
            causes = {record.cause for record in managed.history() if record.epoch > epoch}
            assert causes == {"gone: b (left, restart planned by ada: kernel)"}


def test_a_swap_with_one_that_dies_before_its_planned_restart_does_not_wait_for_it(
    managed: Managed, start: Start
) -> None:
    with managed.looping(), open_coordinator(managed.site.settings) as c:
        process, _ = begin(managed, start)
        traffic = Traffic(managed.site, 50.0, str)
        owners = managed.node().assignments
        kept, gives = sorted(p for p, who in owners.items() if who == "b")[:2]
        gets = min(p for p, who in owners.items() if who == "a")
        managed.ledger.grown([gets], "records flow")
        directives.expect_restart(c, "b", 0.0, moves=False, by="ada", why="")  # what takes time is done before
        process.send_signal(signal.SIGSTOP)
        pins = {gets: "b", gives: "a"}
        topics.change_config(c, managed.site.topic, lambda config: replace(config, pins=pins))
        wait_for(lambda: managed.state() == "Closing", "the swap is planned")
        directives.expect_restart(c, "b", 120.0, moves=False, by="ada", why="kernel")
        killed_s = time.monotonic()
        process.kill()
        process.wait()
        managed.ledger.grown([gets, gives], "a reads what is in between", by=1)
        took_s = time.monotonic() - killed_s
        print(f"\na swap with a dead consumer under a planned restart of 120 s: {took_s:.1f} s")
        assert took_s < 40.0
        assert managed.node().assignments[kept] == "b", "what b owns waits for it"
        start("b")
        wait_for(lambda: managed.node().assignments.get(gets) == "b" and managed.state() == "Stable", "b is back")
        traffic.close()
