"""A plain environment with PySpark of each version and our wheel, without Airflow: records get into a table, on careful servers."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.devstack.embedded.processes import ManagedProcess
from coordinator_tasks.wiring import open_coordinator
from tests.clusters.environments import Environment, build_wheel, new_environment
from tests.clusters.secure_site import SecureSite, owners, secure_site
from tests.integration.airflow_site import eventually
from tests.integration.spark_submit import SUBMIT

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(1_500)]
WORKS, FAILS = ("3.5.7", "4.0.1", "4.1.0", "4.2.0", "4.3.0"), "3.4.4"
TOPIC, GROUP, PARTITIONS = "orders", "orders-billing", 4
ORDER = {"order_id": "o1", "product": "tea", "quantity": 2, "price": "1.50", "ordered_at": "2026-11-21T08:15:00Z"}
COORDINATOR_IMPORTS = """
import sys
from coordinator_tasks.cli import main
try:
    main(["topics"])
except SystemExit as end:
    assert not end.code, end.code
assert not {"airflow", "pyspark"} & sys.modules.keys(), "a coordinator imports neither"
"""


@dataclass(frozen=True, slots=True)
class SparkSite:
    """One environment for everything: the plain loop as the coordinator, and Spark's drivers."""

    site: SecureSite
    environment: Environment

    def environ(self, side: Side) -> dict[str, str]:
        python = str(self.environment.python)
        settings = str(self.site.settings_file(side))
        kafka = self.site.kafka_file(side)  # executors read their log-in from a file
        return self.environment.environ(
            COORDINATOR_SETTINGS=settings, ASSIGNED_KAFKA_SETTINGS_FILE=str(kafka), PYSPARK_PYTHON=python
        )

    def coordinator(self) -> ManagedProcess:
        command = (self.environment.program("coordinator"), "run")
        return self.site.process("coordinator", *command, env=self.environ(Side.COORDINATOR))

    def consumer(self, name: str) -> ManagedProcess:
        """A driver by spark-submit, which writes into the table."""
        (application,) = self.environment.folder.glob("lib/*/site-packages/spark_apps/main.py")
        pipeline = (
            "--pipeline",
            f"{TOPIC}=spark_apps.pipelines.orders:build",
            "--set",
            f"database=sqlite:///{self.table}",
        )
        own = ("--consumer", name, "--run-folder", str(self.site.folder / name))
        submit = (self.environment.program("spark-submit"), *SUBMIT[1:])
        return self.site.process(name, *submit, str(application), *own, *pipeline, env=self.environ(Side.CONSUMER))

    @property
    def table(self) -> Path:
        return self.site.folder / "orders.sqlite"

    def rows(self) -> set[tuple[int, int]]:
        """Partition and offset of every row."""
        if not self.table.exists():
            return set()
        with closing(sqlite3.connect(self.table, timeout=30.0)) as connection:
            try:
                return set(connection.execute("SELECT partition, offset FROM orders"))
            except sqlite3.OperationalError:  # the table is made with the first batch
                return set()


@contextmanager
def spark_site(folder: Path, version: str) -> Iterator[SparkSite]:
    environment = new_environment(folder / "environment")
    environment.install(f"pyspark=={version}", f"{build_wheel(folder / 'dist')}[spark]")
    environment.check()
    assert "apache-airflow" not in environment.packages()
    with secure_site(folder / "site") as site:
        yield SparkSite(site, environment)


@pytest.mark.parametrize("version", WORKS)
def test_spark_of_this_version_gets_records_into_a_table_without_airflow(version: str, tmp_path: Path) -> None:
    with spark_site(tmp_path, version) as made, ExitStack() as ending:
        site = made.site
        site.make_topic(TOPIC, GROUP, PARTITIONS)
        first, second, loop = made.consumer("a"), made.consumer("b"), made.coordinator()
        for one in (first, second, loop):
            ending.callback(one.kill)
        env = made.environ(Side.COORDINATOR)
        made.environment.run("coordinator", "add-topic", TOPIC, "--group", GROUP, env=env)
        loop.start()
        with open_coordinator(site.settings(Side.COORDINATOR)) as c:
            first.start()
            eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"a"})
            site.produce(TOPIC, PARTITIONS, 25, ORDER)
            eventually(lambda: len(made.rows()) == 25 * PARTITIONS)
            second.start()
            eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"a", "b"})
            site.produce(TOPIC, PARTITIONS, 25, ORDER)
            eventually(lambda: len(made.rows()) == 50 * PARTITIONS)
            os.kill(driver_of(first), signal.SIGTERM)
            eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"b"})
            eventually(lambda: not first.running)
            site.produce(TOPIC, PARTITIONS, 25, ORDER)
            eventually(lambda: len(made.rows()) == 75 * PARTITIONS)
            made.environment.run("python", "-c", COORDINATOR_IMPORTS, env=env)


def driver_of(process: ManagedProcess) -> int:
    """The Python process of a driver, which spark-submit has started."""
    below = psutil.Process(process.pid).children(recursive=True)
    (found,) = (one for one in below if any(part.endswith("spark_apps/main.py") for part in _arguments(one)))
    return found.pid


def _arguments(process: psutil.Process) -> list[str]:
    """Of a process that may end meanwhile."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def test_an_older_spark_is_refused_with_the_versions_that_work(tmp_path: Path) -> None:
    environment = new_environment(tmp_path / "environment")
    wheel = build_wheel(tmp_path / "dist")
    environment.install(str(wheel), f"pyspark=={FAILS}")
    with pytest.raises(AssertionError, match=r"pyspark>=3\.5"):
        environment.install(f"pyspark=={FAILS}", f"{wheel}[spark]")
    said = subprocess.run(
        [str(environment.python), "-m", "spark_apps.main", "--consumer", "a"],
        env=environment.environ(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode != 0
    assert f"Spark {FAILS} was not tried with this package" in said.stderr
    assert said.stderr.splitlines()[-1].endswith("use Spark 3.5 or later, and the same version of pyspark")
