"""A consumer of `main.py` on a standalone cluster whose master dies and comes back within seconds.

Its executors do not find our packages by themselves. After the master's return it has none and never gets any: it has to say
so, show the true lag, and be ended by its launcher when its partitions are to go to others.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.ports import HOST, free_port
from coordinator_tasks.embedded.processes import ManagedProcess
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.service import history
from coordinator_tasks.settings import plain_settings
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Managed
from tests.integration.spark_submit import JAVA_OPTIONS, SUBMIT
from tests.integration.test_spark_cluster import READY_S, ROOT, spark_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 300.0
AWAY_S = 5.0
STOP_S = 10


@dataclass
class Cluster:
    """A master and a worker with one core."""

    master: ManagedProcess
    url: str


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    port, page, deploy = free_port(), free_port(), "org.apache.spark.deploy"
    where = ("--host", HOST, "--port", str(port), "--webui-port", str(free_port()))
    master = spark_process("master", tmp_path, port, f"{deploy}.master.Master", *where)
    url = f"spark://{HOST}:{port}"
    size = ("--host", HOST, "--cores", "1", "--memory", "512m", "--webui-port", str(page))
    work = ("--work-dir", str(tmp_path / "work"), url)
    worker = spark_process("worker", tmp_path, page, f"{deploy}.worker.Worker", *size, *work)
    try:
        master.start(READY_S)
        worker.start(READY_S)
        yield Cluster(master, url)
    finally:
        worker.stop()
        master.stop()


@dataclass
class Launched:
    """Consumer `a` under its launcher."""

    managed: Managed
    folder: RunFolder

    @property
    def site(self) -> Site:
        return self.managed.site

    def wait_for_committed(self, count: int) -> None:
        def committed() -> bool:
            assert self.folder.exit_code() is None, self.folder.log_tail(60, 20_000)
            found = self.site.committed()
            return [one.offset for one in found.values()] == [count] * self.site.partitions

        wait_for(committed, f"{count} records of each partition are read", LIMIT_S)

    @property
    def health(self) -> str:
        return self.site.status("a").health

    @property
    def lag(self) -> int:
        return sum(one.lag_records or 0 for one in self.site.topic_status("a").running.values())


@pytest.fixture
def launched(
    cluster: Cluster, zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path
) -> Iterator[Launched]:
    managed = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2))
    site, base = managed.site, tmp_path / "consumers"
    folder = RunFolder.of(base, site.cluster, "a")
    folder.path.mkdir(parents=True)
    write_private(folder.settings, plain_settings(site.settings))
    conf = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST, "spark.executor.memory": "512m"}
    options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    command = [
        *(sys.executable, "-m", "spark_apps.launch.launcher", "--cluster", site.cluster, "--consumer", "a"),
        *("--base", str(base), "--stop-limit", "20", "--"),
        *(SUBMIT[0], "--master", cluster.url, *SUBMIT[3:], *options),
        *("--conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS}", str(ROOT / "spark_apps" / "main.py")),
        *("--consumer", "a", "--run-folder", str(folder.path), "--close-timeout", "5", "--stop-timeout", str(STOP_S)),
        *("--default", "spark_apps.pipelines.audit:build", "--set", f"auditFolder={tmp_path / 'rows'}"),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    environment["JAVA_HOME"] = str(find_java().home)
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    try:
        with managed.looping():
            yield Launched(managed, folder)
    finally:
        subprocess.run(["kill", str(json.loads(done.stdout)["pid"])], check=False)
        wait_for(lambda: folder.exit_code() is not None, "its launcher ends it", 60.0)
        managed.close()


def test_a_consumer_whose_master_was_away_for_seconds_says_so_shows_its_lag_and_is_ended(
    cluster: Cluster, launched: Launched
) -> None:
    site, folder = launched.site, launched.folder
    read = 0
    for _ in range(4):  # a batch has a usual time then
        site.produce(5, start=read)
        read += 5
        launched.wait_for_committed(read)
    assert launched.health == "ok"

    cluster.master.kill()
    time.sleep(AWAY_S)
    cluster.master.start(READY_S)
    without = "stuck: the application has had no executor for"
    wait_for(lambda: launched.health.startswith(without), "it says that it has no executors", LIMIT_S)
    site.produce(7, start=read)
    wait_for(lambda: launched.lag == 14, "a batch begins that does not end", LIMIT_S)
    site.produce(797, start=read + 7)
    wait_for(lambda: launched.lag == 1_608, "the lag is that of the log's end", LIMIT_S)
    assert folder.exit_code() is None, "a consumer that keeps its partitions has its --max-poll-interval"

    launched.managed.join("b")
    wait_for(lambda: folder.exit_code() is not None, "it is ended", LIMIT_S)
    assert folder.exit_code() != 0
    launched.managed.stable("b")
    cannot = "were taken away and cannot stop: a batch of 14 offsets has not ended for"
    claim = decode_claim("", site.zk.get(site.paths.id("a")).data, "a", 0)
    assert cannot in claim.reasons[folder.drawn()]
    with open_coordinator(site.settings) as c:
        causes = [record.cause for record in history.records(c, site.topic, 20)]
    assert any(cause.startswith("gone: a (") and cannot in cause for cause in causes), causes
    wait_for(lambda: [one.offset for one in site.committed().values()] == [read + 804] * 2, "b reads all", LIMIT_S)
