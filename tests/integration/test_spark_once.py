"""Exactly once through Spark: a driver dies inside its transaction, and a plain consumer goes on from the sink's positions."""

from pathlib import Path

import pytest

from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.delivery import Delivery
from spark_apps.plain import Output
from spark_apps.sinks import Database
from tests.integration.agent_site import Running, Site, wait_for
from tests.integration.once_pipeline import UNWANTED, sink_of
from tests.integration.test_agent_spark import START_S, SparkProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
PIPELINE = "tests.integration.once_pipeline"


def test_a_driver_that_dies_inside_its_transaction_leaves_nothing_lost_and_nothing_doubled(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/rows.sqlite"
    monkeypatch.setenv("PIPELINE_database", url)
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2)
    spark = SparkProcess(site, "a", tmp_path, f"{PIPELINE}:build", ("--interceptor", f"{PIPELINE}:Dropping"))

    def seen() -> list[tuple[int, int, str]]:
        database = Database(url)
        with database.transaction() as cursor:
            found = cursor.query('SELECT "partition", "offset", writer FROM seen ORDER BY 1, 2')
        database.close()
        return [(partition, offset, writer) for partition, offset, writer in found]

    try:
        spark.registered()
        site.produce(300)
        site.producer.produce(site.topic, UNWANTED, partition=1)
        site.producer.flush()
        site.assign(dict.fromkeys(range(2), "a"))
        wait_for(lambda: site.committed().get(1, Committed(0)).offset == 301, "a processes everything", START_S)
        (tmp_path / "die").touch()
        site.produce(300, start=300)
        wait_for(lambda: spark.process.poll() is not None, "a dies inside its transaction", START_S)
        (tmp_path / "die").unlink()
        assert seen() == [(p, offset, "spark") for p in range(2) for offset in range(300)]
        # The group is ahead: somebody has committed what never reached the sink.
        site.offsets.commit(site.topic, {0: Committed(500, Token(site.node.since[0], 1, "g1"), "a", site.cluster)})
        plain = Running(site, "b", Output(delivery=Delivery.EXACTLY_ONCE, store=sink_of(url, "plain")))
        site.assign(dict.fromkeys(range(2), "b"), guarded=frozenset(range(2)))
        wait_for(lambda: all(site.committed()[p].offset == 600 + p for p in range(2)), "b processes the rest", START_S)
        rest = [(0, offset) for offset in range(300, 600)] + [(1, offset) for offset in range(301, 601)]
        assert [(p, offset) for p, offset, writer in seen() if writer == "plain"] == rest
        assert len(seen()) == 1200
        assert plain.leave(0.0) == 0
    finally:
        spark.close()
        site.close()
