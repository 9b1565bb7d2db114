"""A Spark application whose database is away for longer than a batch may take: the consumer waits, and goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.agent_site import Site, wait_for
from tests.integration.spark_submit import SUBMIT
from tests.postgres_server import PostgresServer, postgres_or_skip

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
START_S = 150.0
STALLED_S = 10
"""How long a batch may stand still."""
AWAY_S = 25.0
BEFORE, AFTER = 20, 30


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """A server of this test alone, because the test stops the server."""
    with postgres_or_skip() as server:
        yield server


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Site]:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2)
    yield made
    made.close()


@pytest.fixture
def application(site: Site, database: PostgresServer, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    where = ("--cluster", site.cluster, "--zookeeper", site.zookeeper, "--kafka", site.kafka)
    how = ("--session-timeout", "4", "--close-timeout", "5", "--max-poll-interval", str(STALLED_S))
    pipeline = "tests.integration.upgraded_pipeline:exactly_once"
    settings = ("--set", f"database={database.url}", "--set", f"die={tmp_path / 'die'}")
    command = [*SUBMIT, str(ROOT / "spark_apps" / "main.py"), "--consumer", "a", *where, *how]
    command += ["--pipeline", f"{site.topic}={pipeline}", *settings]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "application.log").open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=ROOT, env=environment, start_new_session=True
        )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_while_its_database_is_away_a_consumer_keeps_its_partitions_says_why_and_then_goes_on(
    site: Site, database: PostgresServer, application: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    def said() -> str:
        return (tmp_path / "application.log").read_text()[-3000:]

    def committed(offset: int) -> bool:
        assert application.poll() is None, said()
        found = site.committed()
        return len(found) == site.partitions and all(one.offset == offset for one in found.values())

    wait_for(lambda: application.poll() is not None or site.zk.find(site.paths.member("a")), "a registers", START_S)
    assert application.poll() is None, said()
    incarnation = site.incarnation("a")
    site.produce(BEFORE)
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: committed(BEFORE), "the first records are in the table", START_S)
    database.process.stop()
    site.produce(AFTER - BEFORE, start=BEFORE)

    def has_waited() -> bool:
        assert application.poll() is None, said()
        failures = site.topic_status("a").failures
        waiting = {partition for one in failures for partition in one.partitions}
        return waiting == {0, 1} and all(one.for_s > AWAY_S for one in failures)

    wait_for(has_waited, "both partitions have waited for longer than a batch may stand still", START_S)
    print("it waits for:", {one.why for one in site.topic_status("a").failures})
    assert site.incarnation("a") == incarnation
    assert committed(BEFORE), "nothing is committed that is not in the table"
    database.process.start()
    wait_for(lambda: committed(AFTER), "everything is in the table", START_S)
    assert site.incarnation("a") == incarnation
    assert site.topic_status("a").failures == ()
    with psycopg.connect(database.url) as connection:
        rows = connection.execute('SELECT "partition", "offset" FROM audit ORDER BY 1, 2').fetchall()
    assert rows == [(p, offset) for p in range(2) for offset in range(AFTER)]
