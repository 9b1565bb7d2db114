"""An upgrade of Spark applications in a real Airflow while records flow: its DAGs launch them, do the steps, and are killed.

A person begins the upgrade by the form, pauses it and continues it. A task that follows the upgrade is killed, and the upgrade fails
in its second step. Airflow and up to four Spark applications take minutes on the same cores, so `make clusters` runs the test.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS, AllowedLaunches
from coordinator_tasks.core.fleet.upgrade import Upgrade, UpgradePhase
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrade_report
from coordinator_tasks.service.fleets.upgrade_report import MovedPartition
from coordinator_tasks.service.nodes import fleet, upgrade_store
from coordinator_tasks.service.plan import pauses
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import wait_for_run
from tests.audit_rows import audit_rows
from tests.integration import upgraded_pipeline
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.airflow_site import airflow_of
from tests.integration.real_site import QUICK, Managed
from tests.integration.spark_submit import JAVA_OPTIONS
from tests.integration.stalls_by_rows import agree

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]
APP, OLD = "shop", ("s-1", "s-2")
PARTITIONS = 4
LIMIT_S = 300.0
LOOK_S = 0.1
PER_SECOND = 30.0
PIPELINE = f"{upgraded_pipeline.__name__}:{upgraded_pipeline.at_least_once.__name__}"
CONF = {
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
ALLOWED = AllowedLaunches(code="tests.integration.*", conf="spark.driver.extraJavaOptions", settings="gate")
FORMS = ("upgrade", "pause_upgrade", "continue_upgrade")
RULE = {"max_lag_s": 120, "max_errors": 4}
"""A busy machine is no failure: four applications and Airflow share its cores."""
MIN_RATE = 0.3
STEPS = (50, 100)
HOLD_MINUTES = 0.1


@dataclass
class Shop:
    """The fleet in its Airflow, and what reached the sink."""

    managed: Managed
    c: Coordinator
    airflow: EmbeddedAirflow
    folder: Path
    sent: int = 0

    @property
    def base(self) -> Path:
        """Of the run folders."""
        return self.folder / "consumers"

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait, and take down the releases meanwhile."""

        def there() -> object:
            self.managed.see_releases()
            time.sleep(LOOK_S)
            return holds()

        wait_for(there, what, LIMIT_S)

    def owned_by(self, consumers: Sequence[str]) -> None:
        self.until(lambda: self.managed._is_stable(consumers), f"Stable with {', '.join(consumers)}")

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Records flow; in the end all of them are processed."""
        traffic = Traffic(self.managed.site, PER_SECOND, str)
        try:
            yield
        finally:
            self.sent += traffic.close()
        everything = dict.fromkeys(range(PARTITIONS), self.sent)
        self.until(
            lambda: self.managed.site.positions() == everything,
            "everything is committed",
        )

    def ask(self, form: str, **given: Any) -> str:
        """Start the run of a form; its id."""
        return self.airflow.client.trigger(form, {"app": APP, "why": "test", "dry_run": False, **given})

    def ended(self, dag: str, run: str) -> str:
        return wait_for_run(self.airflow.client, dag, run, LIMIT_S)

    def reconciled(self) -> None:
        """One more run of `reconcile`, as there is one each minute."""
        assert self.ended("reconcile", self.airflow.client.trigger("reconcile")) == "success"

    def upgrade(self) -> Upgrade:
        return upgrade_store.read(self.c, APP)

    def reached(self, phase: UpgradePhase, step: int) -> Upgrade:
        """Wait until the upgrade is there."""

        def there() -> bool:
            one = upgrade_store.find(self.c, APP)
            assert one is None or not one.over or one.phase is phase, one.events
            return one is not None and (one.phase, one.step) == (phase, step)

        self.until(there, f"the upgrade is {phase.value} in step {step + 1}")
        return self.upgrade()

    def left(self, consumers: Sequence[str]) -> None:
        """Wait until these applications have ended, by themselves and cleanly."""
        codes = lambda: [self.run_folder(one).exit_code() for one in consumers]  # noqa: E731
        self.until(lambda: codes() == [0] * len(consumers), f"{consumers} have left")

    def run_folder(self, consumer: str) -> RunFolder:
        return RunFolder.of(self.base, self.managed.site.cluster, consumer)

    def gate(self, code: str) -> Path:
        """While it is there, no batch of this version comes to its sink."""
        return self.folder / f"gate-{code}"

    def judge(self) -> None:
        """Nothing lost, nothing twice, nothing by anybody but its owner."""
        self.managed.ledger.rows = audit_rows(self.folder)
        self.managed.judge(self.sent)

    def close(self) -> None:
        """End the applications that still run."""
        for lock in self.base.glob("*/*/launcher.lock"):
            with suppress(psutil.NoSuchProcess, ValueError):
                launcher = psutil.Process(int(lock.read_text()))
                for process in (*launcher.children(recursive=True), launcher):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


@pytest.fixture(scope="module")
def shop(
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    airflow_factory: Callable[..., EmbeddedAirflow],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    """A fleet of two applications in version v1 that share the topic, launched by Airflow."""
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers, PARTITIONS)
    managed, folder = Managed(site), tmp_path_factory.mktemp("shop")
    site.settings = replace(site.settings, allowed=replace(ALLOWED, folders=str(folder.parent)), policy=QUICK)
    settings = (f"auditFolder={folder}", f"gate={folder / 'gate-{code}'}")
    told = [word for one in settings for word in ("--set", one)]
    arguments = ("--pipeline", f"{site.topic}={PIPELINE}", "--batch-interval", "0.5", *told)
    with open_coordinator(site.settings) as c:
        fleet.set_fleet(c, Fleet(APP, OWN_APPLICATIONS[0], OLD, arguments, conf=CONF, code="v1"))
        dags = {"consumers", "rebalance", "reconcile", *FORMS}
        policy = {"policy": {"settle_s": QUICK.settle_s, "settle_max_s": QUICK.settle_max_s}}
        options = {"base": folder / "consumers"}
        with airflow_of(site.settings, airflow_factory, dags, zookeeper=policy, **options) as airflow:
            made = Shop(managed, c, airflow, folder)
            try:
                made.owned_by(OLD)
                yield made
            finally:
                made.close()
    managed.close()


def killed(shop: Shop, dag: str, run: str, task: str) -> None:
    """Kill -9 of the task's process in the middle of its work: while it has a session of ZooKeeper."""
    port = int(shop.managed.site.zookeeper.rpartition(":")[2])

    def done() -> bool:
        ids = [one["id"] for one in shop.airflow.client.task_instances(dag, run) if one["task_id"] == task]
        began = time.monotonic()
        while time.monotonic() - began < 1.0:
            for process in psutil.process_iter(["cmdline"]):
                title = " ".join(process.info["cmdline"] or ())
                if any(title.startswith(f"airflow worker -- {one}") for one in ids):
                    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        if any(one.raddr and one.raddr.port == port for one in process.net_connections("tcp")):
                            process.kill()
                            return True
            time.sleep(0.01)
        return False

    shop.until(done, f"{task} of {dag} works, and is killed")


def tries(shop: Shop, dag: str, run: str, task: str) -> int:
    return max(int(one["try_number"]) for one in shop.airflow.client.task_instances(dag, run) if one["task_id"] == task)


def test_an_upgrade_by_the_form_is_paused_continued_killed_and_fails_in_its_second_step_with_nothing_lost(
    shop: Shop,
) -> None:
    with shop.flowing():
        how = {"steps": [*STEPS], "hold_minutes": HOLD_MINUTES, "min_rate": MIN_RATE, **RULE}
        run = shop.ask("upgrade", version="v2", code="v2", **how)
        begun = shop.reached(UpgradePhase.MOVING, 0)
        assert shop.ended("pause_upgrade", shop.ask("pause_upgrade")) == "success"
        assert shop.ended("upgrade", run) == "success", "it has nothing to follow any more"
        paused = shop.upgrade()
        assert (paused.step, paused.paused) == (0, "by admin: test")
        shop.reconciled()
        assert shop.upgrade() == paused
        run = shop.ask("continue_upgrade")
        killed(shop, "continue_upgrade", run, "follow")
        shop.owned_by(begun.new_consumers)
        shop.until(lambda: not unmeasured(shop), "each move is measured")
        shop.reached(UpgradePhase.HOLDING, 1)
        shop.gate("v2").touch()
        shop.reached(UpgradePhase.RETURNING, 1)
        shop.gate("v2").unlink()
        done = shop.reached(UpgradePhase.ROLLED_BACK, 1)
        assert done.reason.startswith("step 2 of 2 (100 %): less than 30% of the records per second before: ")
        shop.owned_by(OLD)
        assert shop.ended("continue_upgrade", run) == "success"
        assert tries(shop, "continue_upgrade", run, "follow") > 1, "a later try has continued what the killed one did"
    assert fleet.fleet_of(shop.c, APP).consumers == OLD
    shop.left(begun.new_consumers)
    shop.judge()
    shop.until(lambda: not unmeasured(shop), "each move back is measured")
    found = upgrade_report.report(shop.c, APP)
    agree(found, shop.managed.history(), shop.managed.ledger.rows, PARTITIONS)
    assert found.control
    assert sorted((one.partition, one.taker in begun.new_consumers) for one in found.moved) == [
        (p, there) for p in range(PARTITIONS) for there in (False, True)
    ]


def unmeasured(shop: Shop) -> list[MovedPartition]:
    """Measure what can be, as whoever comes next does; the moves that are left."""
    pauses.complete(shop.c, [shop.managed.site.topic])
    return [one for one in upgrade_report.report(shop.c, APP).moved if not one.measured]
