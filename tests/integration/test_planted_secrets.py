"""Secrets are planted, a consumer runs on each kind of master, and everything that was written is searched for them."""

import json
import os
import re
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.settings import plain_settings
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Managed
from tests.integration.spark_submit import JAVA_OPTIONS, SUBMIT
from tests.integration.standalone_cluster import standalone_cluster
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 200.0
RECORDS = 50
MARKS = {
    "Kafka's password": "alice-secret",
    "ZooKeeper's password": "planted-zookeeper-password",
    "the status token": "planted-status-token",
    "a pipeline's secret": "planted-pipeline-secret",
}
MEANT = {"settings.json", "kafka.json"}
"""What a launcher writes for its consumer, mode 0600."""
PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")


def marks_in(content: bytes) -> list[str]:
    return [what for what, mark in MARKS.items() if mark.encode() in content]


@pytest.fixture(params=["local[2]", pytest.param("standalone", marks=pytest.mark.clusters)])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param != "standalone":
        yield request.param
        return
    with standalone_cluster(tmp_path) as cluster:
        cluster.add_worker(cores=2)
        yield cluster.url


@dataclass
class Running:
    """A consumer under its launcher, where its user interface is, and its folder for temporary files."""

    managed: Managed
    folder: RunFolder
    page: str
    temporary: Path


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Of a short path, as a socket's may have 100 bytes."""
    with TemporaryDirectory(prefix="s-") as made:
        yield Path(made)


@pytest.fixture
def running(
    master: str, zookeeper: EmbeddedZooKeeper, kafka: SaslKafka, tmp_path: Path, temporary: Path
) -> Iterator[Running]:
    managed = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2))
    site, port = managed.site, free_port()
    access = ZooKeeperAccess(user="ada", password=MARKS["ZooKeeper's password"], open_nodes=True)
    login = {**kafka.login(MARKS["Kafka's password"]), "log_level": "1"}
    settings = replace(site.settings, kafka=login, zookeeper_access=access, status_token=MARKS["the status token"])
    folder = RunFolder.of(tmp_path / "consumers", site.cluster, "a")
    folder.make()
    write_private(folder.settings, plain_settings(settings))
    write_private(folder.kafka, dict(settings.kafka))
    for name in ("events", "local"):
        (tmp_path / name).mkdir()
    conf = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{tmp_path / 'events'}",
        "spark.ui.port": str(port),
        "spark.local.dir": str(tmp_path / "local"),
    }
    command = [
        *(sys.executable, "-m", "spark_apps.launch.launcher", "--cluster", site.cluster, "--consumer", "a"),
        *("--base", str(tmp_path / "consumers"), "--stop-limit", "30", "--"),
        *(SUBMIT[0], "--master", master, "--driver-memory", "512m"),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        *(str(ROOT / "spark_apps" / "main.py"), "--consumer", "a", "--run-folder", str(folder.path)),
        *("--close-timeout", "5", "--default", "spark_apps.pipelines.audit:build"),
        *("--set", f"auditFolder={tmp_path / 'rows'}", "--log-level", "INFO"),
    ]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PIPELINE_apiKey": MARKS["a pipeline's secret"],
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(temporary),
    }
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    try:
        with managed.looping(settings=settings):
            site.produce(RECORDS)
            read = lambda: [one.offset for one in site.committed().values()] == [RECORDS] * 2  # noqa: E731
            wait_for(lambda: folder.exit_code() is not None or read(), "everything is read", LIMIT_S)
            assert folder.exit_code() is None, folder.log_tail(60, 20_000)
            yield Running(managed, folder, f"http://{HOST}:{port}", temporary)
    finally:
        subprocess.run(["kill", str(json.loads(done.stdout)["pid"])], check=False)
        wait_for(lambda: folder.exit_code() is not None, "its launcher ends it", 90.0)
        managed.close()


def test_what_was_written_holds_no_secret_but_in_the_files_that_are_meant(running: Running, tmp_path: Path) -> None:
    before = [path for path in running.temporary.rglob("*") if path.is_file() and marks_in(path.read_bytes())]
    found = {place: marks for place, marks in looked_at(running) if marks}
    assert before == []
    assert found == {}
    subprocess.run(["kill", running.folder.lock.read_text()], check=True)
    wait_for(lambda: running.folder.exit_code() is not None, "it leaves", 90.0)
    written = [path for top in (tmp_path, running.temporary) for path in top.rglob("*") if path.is_file()]
    holding = [path for path in written if marks_in(path.read_bytes())]
    assert {path.name for path in holding} == MEANT
    assert {path.parent for path in holding} == {running.folder.path}
    for path in holding:
        about = path.stat()
        assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (os.geteuid(), 0o600)
    events = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerEnvironmentUpdate" in path.read_bytes() for path in events), "there is an event log"


def looked_at(running: Running) -> Iterator[tuple[str, list[str]]]:
    """Every place of a running consumer that others can see, and the secrets in it."""
    site = running.managed.site
    tree = [site.paths.base]
    for path in tree:
        tree += [f"{path}/{child}" for child in site.zk.children(path)]
        yield path, marks_in(site.zk.get(path).data)
    for process in psutil.process_iter(["pid", "cmdline"]):
        arguments = "\0".join(process.info["cmdline"] or [])
        if site.cluster in arguments or "CoarseGrainedExecutorBackend" in arguments:
            yield f"arguments of {process.info['pid']}", marks_in(arguments.encode())
    (application,) = json.loads(page_of(f"{running.page}/api/v1/applications"))
    api = f"api/v1/applications/{application['id']}"
    shown = [*(f"{name}/" for name in PAGES), f"{api}/environment", f"{api}/allexecutors", f"{api}/sql?details=true"]
    for name in shown:
        content = page_of(f"{running.page}/{name}")
        assert content, name
        yield name, marks_in(content)
    assert re.search(rb"spark\.eventLog\.dir", page_of(f"{running.page}/environment/")), "the page was really there"


def page_of(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30.0) as answer:
        content: bytes = answer.read()
    return content
