"""Consumers on a real YARN, launched by the operator through Airflow's own Spark connection, with a password for Kafka."""

import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator_tasks.devstack.embedded.jars import pyspark_home
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.wiring import open_coordinator
from spark_apps.launch import launcher_service
from spark_apps.launch.launcher_service import Host
from spark_apps.spark import session
from tests.clusters.shop import PASSWORD, TOKEN, Shop
from tests.clusters.yarn import Yarn
from tests.integration.agent_site import Site, Traffic
from tests.integration.real_site import Managed
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1500)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn")) as started:
        yield started


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslKafka]:
    with SaslKafka(tmp_path_factory.mktemp("kafka"), users={"alice": PASSWORD}) as started:
        yield started


class YarnShop(Shop):
    """Its consumer `a` is on YARN."""

    def __init__(self, yarn: Yarn, broker: SaslKafka, managed: Managed, folder: Path) -> None:
        super().__init__(broker, managed, folder)
        self.yarn, self.events = yarn, folder / "events"
        self.events.mkdir()
        self._before = {one["id"] for one in yarn.applications()}

    def applications(self) -> list[dict[str, Any]]:
        """On YARN, oldest first: one in client mode has the name that its session gives it."""
        own = {f"{self.managed.site.cluster}.a", "a"}
        return [one for one in self.yarn.applications() if one["name"] in own and one["id"] not in self._before]

    def running(self) -> list[dict[str, Any]]:
        """Those that have not ended."""
        return [one for one in self.applications() if one["state"] not in {"FINISHED", "FAILED", "KILLED"}]

    def launch(self, monkeypatch: pytest.MonkeyPatch, mode: str = "cluster", **conf: str) -> None:
        """Launch `a` as a task does. `conf`: names with __ for a point."""
        for name, value in {**self.yarn.environment(), "PYTHONPATH": str(ROOT)}.items():
            monkeypatch.setenv(name, value)
        spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": mode}}
        given = {**self.spark_conf(), **{name.replace("__", "."): value for name, value in conf.items()}}
        self.submit(monkeypatch, spark, str(ROOT / "spark_apps" / "main.py"), given)

    def spark_conf(self) -> dict[str, str]:
        # With the installed packages first, Python does not compile the shipped pyspark.zip for each process.
        path = session.python_environment({"PYTHONPATH": str(pyspark_home().parent)})["PYTHONPATH"]
        python = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return {
            **self.yarn.spark_conf(),
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in python.items()},
            **{f"spark.executorEnv.{name}": value for name, value in python.items()},
            "spark.pyspark.python": sys.executable,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.events}",
            "spark.ui.port": "0",
        }

    def said(self) -> str:
        states = [(one["id"], one["state"], one["diagnostics"][-300:]) for one in self.yarn.applications()]
        return f"{states}\n{self.yarn.said()}"

    def processes(self, *words: str) -> list[psutil.Process]:
        """Processes of this application's consumer whose command line has all these words."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if all(any(word in part for part in line) for word in words):
                found.append(process)
        return found

    def drivers(self) -> list[psutil.Process]:
        """The Python of every driver of `a`."""
        found = self.processes("main.py", f"auditFolder={self.audit}", "--consumer")
        return [one for one in found if "python" in one.info["cmdline"][0]]

    def executors(self) -> list[psutil.Process]:
        """The JVMs of the executors of `a`."""
        running = [one["id"] for one in self.running()]
        found = [one for name in running for one in self.processes("CoarseGrainedExecutorBackend", name)]
        return [one for one in found if "java" in one.info["cmdline"][0]]

    def end(self) -> None:
        launcher_service.stop_all(Host(self.folder / "runs", "yarn", stop_limit_s=5.0), self.managed.site.cluster)
        for one in self.running():
            self.yarn.kill(one["id"])
        self.wait_for(lambda: not self.drivers(), "no driver is left", 60.0)


@pytest.fixture
def shop(yarn: Yarn, broker: SaslKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[YarnShop]:
    site = Site(zookeeper.connect_string, broker.bootstrap_servers)
    site.settings = replace(site.settings, status_token=TOKEN)
    managed = Managed(site)
    made = YarnShop(yarn, broker, managed, tmp_path)
    try:
        with managed.looping():
            yield made
    finally:
        made.end()
        managed.close()


def open_to_others(path: Path, base: Path) -> bool:
    """Whether another user of the host could read the file: by its own mode, and those of the folders above it."""
    ways = [one for one in path.parents if base in one.parents or one == base]
    return bool(path.stat().st_mode & 0o044) and all(one.stat().st_mode & 0o011 for one in ways)


def holding(secret: str, base: Path) -> list[Path]:
    """Files below `base` that hold the secret."""
    files = (one for one in base.rglob("*") if one.is_file() and not one.is_symlink())
    return [one for one in files if secret.encode() in one.read_bytes()]


def shown_by(yarn: Yarn, application: str) -> str:
    """Spark's pages of settings and executors as people open them, and what they are made from."""
    root = f"http://{yarn.page}/proxy/{application}"
    text = ""
    for page in ("environment/", "executors/", f"api/v1/applications/{application}/environment"):
        with urllib.request.urlopen(f"{root}/{page}", timeout=120.0) as answer:
            text += answer.read().decode()
    return text


def test_a_consumer_in_cluster_mode_registers_reads_hands_over_and_leaves_and_no_secret_is_left_open(
    shop: YarnShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed, yarn = shop.managed, shop.yarn
    traffic = Traffic(managed.site, per_second=20)
    try:
        shop.launch(monkeypatch)
        shop.wait_for(shop.incarnation, "a registers")
        shop.stable("a")
        shop.grown("rows of a")
        (application,) = shop.running()
        node = application["amHostHttpAddress"].partition(":")[0]
        assert shop.address().startswith(f"http://{node}:"), "the node's name, as YARN knows it"
        lines = " ".join(" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"]))
        shown = lines + shown_by(yarn, application["id"])
        assert "spark.executorEnv.ASSIGNED_KAFKA_SETTINGS_FILE" in shown
        assert "--consumer" in lines

        managed.join("b")
        assert sorted(shop.stable("ab").values()) == ["a", "a", "b", "b"]
        shop.grown("both read")
        with open_coordinator(managed.site.settings) as c:
            directives.drain(c, "a", "test", "it leaves")
        shop.stable("b")
        shop.wait_for(lambda: not shop.running(), "the application ends")
    finally:
        sent = traffic.close()
    ended = next(one for one in yarn.applications() if one["id"] == application["id"])
    assert ended["finalStatus"] == "SUCCEEDED"
    assert len(yarn.attempts(application["id"])) == 1
    shop.follow()
    managed.consumed(sent)
    managed.judge(sent)

    for secret in (PASSWORD, TOKEN):
        assert secret not in shown, "in a command line or on a page of Spark"
        files = holding(secret, yarn.folder)
        assert files, "YARN has kept what it localized"
        assert [str(one) for one in files if open_to_others(one, yarn.folder)] == []
        assert {one.name for one in files} <= {"settings.json", "kafka.json"}
        assert not holding(secret, shop.events)
        assert {one.name for one in holding(secret, shop.folder)} <= {"settings.json", "kafka.json"}


def test_in_client_mode_an_executor_dies_and_another_reads_on_for_the_same_incarnation(
    shop: YarnShop, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    managed = shop.managed
    folder = RunFolder.of(shop.folder / "runs", managed.site.cluster, "a")
    traffic = Traffic(managed.site, per_second=20)
    try:
        shop.launch(monkeypatch, "client")
        shop.wait_for(shop.incarnation, "a registers")
        first = shop.incarnation()
        shop.stable("a")
        shop.grown("rows of a")
        (executor,) = shop.executors()
        executor.send_signal(signal.SIGKILL)
        shop.wait_for(lambda: shop.executors() and executor not in shop.executors(), "another executor starts")
        record_property("rows_after_executor_s", round(shop.grown("rows of the other executor"), 1))
        assert shop.incarnation() == first
        os.kill(int(folder.lock.read_text()), signal.SIGTERM)
        shop.wait_for(folder.ended.exists, "it leaves")
    finally:
        sent = traffic.close()
    assert folder.exit_code() == 0, folder.log_tail()
    shop.wait_for(lambda: not shop.running(), "the application ends")
    shop.follow()
    assert [
        lost for p in range(4) for lost in set(range(max(managed.ledger.offsets(p)))) - set(managed.ledger.offsets(p))
    ] == []
    assert sent > 0
    for secret in (PASSWORD, TOKEN):
        files = holding(secret, shop.yarn.folder)
        assert [str(one) for one in files if open_to_others(one, shop.yarn.folder)] == []
        assert not holding(secret, shop.events)
    assert not [one for one in holding(TOKEN, shop.yarn.folder) if shop.yarn.applications()[-1]["id"] in str(one)]


def killed(shop: YarnShop) -> int:
    """Kill -9 of the driver's Python and of the JVM above it; returns its incarnation."""
    incarnation = shop.incarnation()
    (driver,) = shop.drivers()
    for process in (driver.parent(), driver):
        assert process is not None
        process.send_signal(signal.SIGKILL)
    return incarnation


def test_with_attempts_of_yarns_own_the_second_one_is_a_new_incarnation_and_the_only_consumer(
    shop: YarnShop, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    traffic = Traffic(shop.managed.site, per_second=20)
    try:
        shop.launch(monkeypatch, spark__yarn__maxAppAttempts="2")
        shop.wait_for(shop.incarnation, "a registers")
        shop.stable("a")
        shop.grown("rows of a")
        first = killed(shop)
        took = shop.wait_for(lambda: shop.incarnation() > first, "the second attempt registers")
        record_property("second_attempt_s", round(took))
        shop.stable("a")
        shop.grown("rows of the second attempt")
        assert len(shop.drivers()) == 1
        (application,) = shop.running()
        assert len(shop.yarn.attempts(application["id"])) == 2

        second = shop.incarnation()
        shop.launch(monkeypatch)  # as a fleet would in the meantime
        (other,) = (one["id"] for one in shop.running() if one["id"] != application["id"])
        shop.wait_for(lambda: [one["id"] for one in shop.running()] == [application["id"]], "one of two ends")
        assert shop.incarnation() == second, "the living one stays"
        assert next(one for one in shop.yarn.applications() if one["id"] == other)["finalStatus"] == "FAILED"
        shop.grown("rows of the one that stays")
    finally:
        traffic.close()
