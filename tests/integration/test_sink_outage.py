"""A Spark application whose database is away for longer than a batch may take: the consumer waits, and goes on."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.agent_site import Site, wait_for
from tests.integration.test_agent_spark import START_S, SparkProcess
from tests.postgres_server import PostgresServer, postgres_or_skip

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(400), pytest.mark.partitions(2)]
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
def application(site: Site, database: PostgresServer, tmp_path: Path) -> Iterator[SparkProcess]:
    settings = ("--set", f"database={database.url}", "--set", f"die={tmp_path / 'die'}")
    pipeline = "tests.integration.once_pipeline:build"
    process = SparkProcess(site, "a", tmp_path, pipeline, (*settings, "--max-poll-interval", str(STALLED_S)))
    yield process
    process.close()


def test_while_its_database_is_away_a_consumer_keeps_its_partitions_says_why_and_then_goes_on(
    site: Site, database: PostgresServer, application: SparkProcess
) -> None:
    def committed(offset: int) -> bool:
        application.runs()
        found = site.committed()
        return len(found) == site.partitions and all(one.offset == offset for one in found.values())

    application.registered()
    incarnation = site.incarnation("a")
    site.produce(BEFORE)
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: committed(BEFORE), "the first records are in the table", START_S)
    database.process.stop()
    site.produce(AFTER - BEFORE, start=BEFORE)

    def has_waited() -> bool:
        application.runs()
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
        rows = connection.execute('SELECT "partition", "offset" FROM written ORDER BY 1, 2').fetchall()
    assert rows == [(p, offset) for p in range(2) for offset in range(AFTER)]
