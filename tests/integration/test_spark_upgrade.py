"""An upgrade of Spark applications with an exactly-once sink while records flow: it fails in its second step.

In this step, an application of the new version is killed with -9 inside a transaction.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS, AllowedLaunches
from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade, UpgradePhase
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrade_report, upgrades
from coordinator_tasks.service.fleets.upgrade_begin import WantedUpgrade, begin
from coordinator_tasks.service.nodes import fleet, upgrade_store
from coordinator_tasks.service.nodes.fleet import Launch
from coordinator_tasks.service.plan import pauses
from coordinator_tasks.wiring import open_coordinator
from tests.audit_rows import row_of
from tests.integration import upgraded_pipeline
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import QUICK, Managed
from tests.integration.spark_submit import SUBMIT
from tests.integration.stalls_by_rows import agree

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
APP, FIRST = "shop", ("s-1", "s-2")
PARTITIONS = 4
LIMIT_S = 400.0
HOLD_S = 10.0
PER_SECOND = 30.0
RULE = Rule(max_lag_s=45.0, min_rate=0.3)
PIPELINE = f"{upgraded_pipeline.__name__}:{upgraded_pipeline.exactly_once.__name__}"


class Shop:
    """The fleet, and what reached the database."""

    def __init__(self, c: Coordinator, folder: Path, managed: Managed) -> None:
        self.c, self.folder, self.managed = c, folder, managed
        self.site = managed.site
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()
        self.sent = 0

    def begin(self) -> None:
        settings = (f"database=sqlite:///{self.folder}/rows.db", f"die={self.dies('{code}')}")
        arguments = ["--pipeline", f"{self.site.topic}={PIPELINE}", *(one for s in settings for one in ("--set", s))]
        arguments += ["--session-timeout", "4", "--batch-interval", "0.5"]
        fleet.set_fleet(self.c, Fleet(APP, OWN_APPLICATIONS[0], FIRST, tuple(arguments), code="v1"))
        self.launch()
        self.owned_by(FIRST)

    def dies(self, code: str) -> Path:
        """The first application of this version that finds it dies inside its transaction."""
        return self.folder / f"die-{code}"

    def launch(self) -> None:
        """What a launcher does."""
        for one in fleet.missing(self.c):
            ended = self.processes[one.consumer].poll() if one.consumer in self.processes else 0
            if ended:
                self.killed.add(one.consumer)
            if ended is not None:
                self.processes[one.consumer] = self._started(one)

    def _started(self, one: Launch) -> subprocess.Popen[bytes]:
        site = self.site
        where = ("--cluster", site.cluster, "--zookeeper", site.zookeeper, "--kafka", site.kafka)
        command = [*SUBMIT, one.application, "--consumer", one.consumer, *where, *one.arguments]
        environment = {**os.environ, **one.environment, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{one.consumer}.log").open("a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment, start_new_session=True)

    def owned_by(self, consumers: Sequence[str]) -> None:
        wait_for(lambda: self.managed._is_stable(consumers), f"Stable with {', '.join(consumers)}", LIMIT_S)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Records flow; in the end all of them are processed."""
        traffic = Traffic(self.site, PER_SECOND, str)
        try:
            yield
        finally:
            self.sent += traffic.close()
        wait_for(self._committed, "everything is committed", LIMIT_S)

    def _committed(self) -> bool:
        """What is committed has passed the sink."""
        self.managed.see_releases()
        return {p: one.offset for p, one in self.site.committed().items()} == dict.fromkeys(
            range(PARTITIONS), self.sent
        )

    def rows(self) -> list[Row]:
        connection = sqlite3.connect(self.folder / "rows.db", timeout=20)
        try:
            found = connection.execute(f"SELECT * FROM {upgraded_pipeline.TABLE} ORDER BY rowid").fetchall()
        finally:
            connection.close()
        return [row_of(dict(zip(upgraded_pipeline.COLUMNS, one, strict=True))) for one in found]

    def followed(self, until: tuple[UpgradePhase, int]) -> Upgrade:
        """Launch what is missing and do the upgrade's steps until it is there, or over."""
        problems: list[str] = []

        def there() -> bool:
            self.launch()
            for line in upgrades.advance(self.c, problems):
                print(line)
            self.managed.see_releases()
            one = upgrade_store.read(self.c, APP)
            return one.over or (one.phase, one.step) == until

        wait_for(there, f"the upgrade is {until}: {problems[-3:]}; {self.logs()}", LIMIT_S)
        return upgrade_store.read(self.c, APP)

    def left(self, consumers: Sequence[str]) -> None:
        """Wait until these processes have ended, by themselves and cleanly."""
        running = [self.processes[one] for one in consumers]
        wait_for(lambda: [one.poll() for one in running] == [0] * len(running), f"{consumers} have left", LIMIT_S)

    def measured(self) -> upgrade_report.UpgradeReport:
        """The report, once each move so far is measured."""
        wait_for(lambda: not pauses.complete(self.c, [self.site.topic]), "pauses are measured", 40)
        return upgrade_report.report(self.c, APP)

    def judge(self) -> None:
        """Each record is there exactly once, from nobody but its owner."""
        rows = self.managed.ledger.rows = self.rows()
        there = sorted((one.partition, one.offset) for one in rows)
        assert there == [(p, offset) for p in range(PARTITIONS) for offset in range(self.sent)]
        self.managed.judge(self.sent)

    def agrees(self, found: upgrade_report.UpgradeReport) -> None:
        """The stalls of the report are those of the rows."""
        agree(found, self.managed.history(), self.rows(), PARTITIONS)
        assert found.control

    def logs(self) -> str:
        return "; ".join(f"{one}: {(self.folder / f'{one}.log').read_text()[-500:]}" for one in self.processes)

    def close(self) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def shop(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """A fleet of two applications in version v1 that own everything."""
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers, PARTITIONS)
    folder = tmp_path_factory.mktemp("shop")
    allowed = AllowedLaunches(code="tests.integration.*", settings="die", folders=str(folder))
    site.settings = replace(site.settings, allowed=allowed)
    managed = Managed(site)
    quick = replace(site.settings, policy=QUICK, answer_timeout_s=4.0)
    with open_coordinator(quick) as c, managed.looping():
        made = Shop(c, folder, managed)
        try:
            made.begin()
            yield made
        finally:
            made.close()
    managed.close()


def upgraded(shop: Shop, name: str) -> Upgrade:
    """Begin an upgrade to this version in two steps; its record."""
    now = fleet.version_of(fleet.fleet_of(shop.c, APP))
    wish = WantedUpgrade(APP, name, replace(now, code=name), steps=(50, 100), hold_s=HOLD_S, rule=RULE)
    return begin(shop.c, wish, by="ada", why="test").upgrade


def test_a_version_that_is_killed_in_its_second_step_gives_everything_back_and_each_record_is_there_once(
    shop: Shop,
) -> None:
    with shop.flowing():
        begun = upgraded(shop, "v2")
        held = shop.followed((UpgradePhase.HOLDING, 1))
        assert (held.phase, held.step) == (UpgradePhase.HOLDING, 1), held.reason
        shop.measured()
        shop.dies("v2").touch()
        done = shop.followed((UpgradePhase.ROLLED_BACK, 1))
        assert done.phase is UpgradePhase.ROLLED_BACK
        assert done.reason.startswith("step 2 of 2 (100 %): 1 error: ")
        shop.owned_by(begun.old_consumers)
    assert not shop.dies("v2").exists()
    assert fleet.fleet_of(shop.c, APP).consumers == begun.old_consumers
    died = {one for one in begun.new_consumers if shop.processes[one].poll() not in (None, 0)}
    killed = died | shop.killed
    assert len(killed) == 1
    shop.left([one for one in begun.new_consumers if one not in died])
    shop.judge()
    found = shop.measured()
    shop.agrees(found)
    there = {one.partition for one in found.moved if one.taker in begun.new_consumers}
    back = {one.partition for one in found.moved if one.giver in begun.new_consumers}
    assert there == back == set(range(PARTITIONS))
    least = [one for one in found.moved if one.giver in killed and one.stall_s is not None]
    assert all(one.least for one in least), "nobody can say when its last record passed"
