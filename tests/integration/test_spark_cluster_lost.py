"""A consumer of `main.py` on a standalone cluster that loses its master for seconds, or takes a worker out of service.

Its executors do not find our packages by themselves. After the master's return it has none and never gets any: it has to say
so, show the true lag, and be ended by its launcher when its partitions are to go to others. When a worker is decommissioned,
Spark moves the executor, and the consumer goes on.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.service.plan import overrides
from coordinator_tasks.settings import plain_settings
from coordinator_tasks.wiring import open_coordinator
from tests.audit_rows import read_audit
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Managed
from tests.integration.spark_submit import JAVA_OPTIONS, SUBMIT
from tests.integration.standalone_cluster import DECOMMISSION, READY_S, StandaloneCluster, standalone_cluster

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]
LIMIT_S = 300.0
AWAY_S = 5.0
STOP_S = 10
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path) as made:
        made.add_worker()
        yield made


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
    cluster: StandaloneCluster, zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path
) -> Iterator[Launched]:
    managed = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2))
    site, base = managed.site, tmp_path / "consumers"
    folder = RunFolder.of(base, site.cluster, "a")
    folder.path.mkdir(parents=True)
    write_private(folder.settings, plain_settings(site.settings))
    conf = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST, "spark.executor.memory": "512m"}
    options = [
        part for one in (*(f"{name}={value}" for name, value in conf.items()), DECOMMISSION) for part in ("--conf", one)
    ]
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
    cluster: StandaloneCluster, launched: Launched
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
    wait_for(lambda: site.zk.find(site.paths.member("b")), "b registers", LIMIT_S)
    with open_coordinator(site.settings) as c:  # the batch may have begun with the records of one partition alone
        overrides.set_pins(c, site.topic, "b", range(site.partitions), actor=PERSON)
    wait_for(lambda: folder.exit_code() is not None, "it is ended", LIMIT_S)
    assert folder.exit_code() != 0
    launched.managed.stable("b")
    cannot = re.compile(r"were taken away and cannot stop: a batch of \d+ offsets has not ended for")
    claim = decode_claim("", site.zk.get(site.paths.id("a")).data, "a", 0)
    assert cannot.search(claim.reasons[folder.drawn()])
    wait_for(lambda: [one.offset for one in site.committed().values()] == [read + 804] * 2, "b reads all", LIMIT_S)


def test_a_worker_is_decommissioned_and_the_same_consumer_reads_on_elsewhere(
    cluster: StandaloneCluster, launched: Launched, tmp_path: Path
) -> None:
    """Spark's own signal for a worker that leaves its service, as a host that is drained sends it."""
    site = launched.site
    site.produce(20)
    launched.wait_for_committed(20)
    before = site.status("a").incarnation
    cluster.add_worker()
    os.kill(cluster.workers[0].pid, signal.SIGPWR)
    wait_for(
        lambda: list((cluster.folder / "worker-1").glob("app-*/*")), "an executor starts on the other worker", LIMIT_S
    )
    for read in (20, 25):
        site.produce(5, start=read)
        launched.wait_for_committed(read + 5)
    assert (site.status("a").incarnation, launched.health) == (before, "ok")
    rows = [(row["partition"], row["offset"]) for row in read_audit(tmp_path / "rows")]
    assert sorted(rows) == [(partition, offset) for partition in range(site.partitions) for offset in range(30)]
