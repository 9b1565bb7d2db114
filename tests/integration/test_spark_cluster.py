"""A consumer on a Spark standalone cluster, a master and two workers, under the coordinator and beside a plain consumer."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import Managed
from tests.integration.standalone_cluster import standalone_cluster
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
APPLICATION = Path(__file__).with_name("cluster_application.py")
RUN_S = 240.0
RECORDS = 3_000
"""In each of the four partitions before anything is read."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for number in range(2):  # Spark starts no copy of a task on the host of the first.
            cluster.add_worker(f"127.0.0.{number + 1}")
        yield cluster.url


class Application:
    """The consumer `a`, and what it has written down, which `follow` adds to the ledger of its site."""

    def __init__(self, managed: Managed, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.managed, self.process, self.folder = managed, process, folder
        self.workers: set[str] = set()
        self._lines = 0

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def follow(self) -> None:
        file = self.folder / "batches"
        *lines, _ = file.read_text().split("\n") if file.exists() else [""]
        for line in map(json.loads, lines[self._lines :]):
            for partition, offset, incarnation, epoch, worker in line["rows"]:
                self.managed.ledger.rows.append(Row("a", incarnation, epoch, partition, offset, 0, 0.0, line["at"]))
                self.workers.add(worker)
        self._lines = len(lines)

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        def followed() -> bool:
            assert self.process.poll() is None, self.said()[-3000:]
            self.follow()
            return holds()

        wait_for(followed, what, RUN_S)

    def grown(self, partitions: Iterable[int], what: str) -> None:
        """Wait until each of these partitions has 30 more rows, by whomever."""
        ledger = self.managed.ledger
        wanted = {p: len(ledger.offsets(p)) + 30 for p in partitions}
        self.wait_for(lambda: all(len(ledger.offsets(p)) >= count for p, count in wanted.items()), what)


@pytest.fixture(scope="module")
def application(
    master: str, zookeeper: EmbeddedZooKeeper, kafka: SaslKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("application")
    settings = folder / "kafka.json"
    settings.touch(mode=0o600)
    login = {name: value for name, value in kafka.login("alice-secret").items() if name != "bootstrap.servers"}
    settings.write_text(json.dumps(login))
    managed = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers))
    managed.site.produce(RECORDS)
    where = (managed.site.zookeeper, managed.site.cluster, kafka.bootstrap_servers, kafka.sasl_bootstrap_servers)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(APPLICATION), master, *where, str(settings), str(folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        with managed.looping():
            yield Application(managed, process, folder)
    finally:
        process.kill()
        process.wait()
        managed.close()


def test_executors_on_a_cluster_read_what_the_driver_was_assigned_also_when_one_dies_and_when_a_task_runs_twice(
    application: Application,
) -> None:
    rows, folder = application.managed.ledger.rows, application.folder
    application.wait_for(lambda: len(rows) >= 4 * RECORDS, "everything is read")
    assert {(row.partition, row.offset) for row in rows} == {(p, n) for p in range(4) for n in range(RECORDS)}
    assert len(rows) == 4 * RECORDS
    assert application.workers == {"worker-0", "worker-1"}, "both workers read"
    assert (folder / "killed").exists(), "an executor died in the middle of a batch"
    assert (folder / "copied").exists(), "a task ran twice at once"
    assert "alice-secret" not in (folder / "plan").read_text() + application.said()


def test_a_consumer_on_a_cluster_hands_partitions_over_while_it_runs_and_all_of_them_when_it_leaves(
    application: Application,
) -> None:
    managed, process = application.managed, application.process
    application.wait_for(lambda: len(managed.ledger.rows) >= 4 * RECORDS, "everything is read")
    traffic = Traffic(managed.site, per_second=50)
    try:
        application.grown(range(4), "records flow")
        managed.join("b")
        owners = managed.stable("ab")
        assert sorted(owners.values()) == ["a", "a", "b", "b"]
        application.grown(range(4), "both go on")
        process.send_signal(signal.SIGTERM)
        managed.stable("b")
        wait_for(lambda: process.poll() is not None, "a leaves", RUN_S)
    finally:
        sent = RECORDS + traffic.close()
    assert process.returncode == 0, application.said()[-3000:]
    application.follow()
    managed.consumed(sent)
    assert {row.consumer for row in managed.ledger.rows} == {"a", "b"}
    managed.judge(sent)
