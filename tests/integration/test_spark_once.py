"""Exactly once through Spark: a driver dies within a batch, and a plain consumer goes on."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.core.model import Committed, Token
from spark_apps.delivery import Delivery
from spark_apps.delivery.database import Database
from spark_apps.plain import Output
from spark_apps.records.agent_socket import LONGEST_WAIT_S
from tests.integration.agent_site import Site, wait_for
from tests.integration.once_pipeline import TABLE, UNWANTED, sink_of
from tests.integration.real_site import Consumer
from tests.integration.test_agent_spark import START_S, SparkProcess
from tests.postgres_server import sink_url

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400), pytest.mark.partitions(2)]
PIPELINE = "tests.integration.once_pipeline"


class Stage:
    """A topic of two partitions, a table, and an application that dies with its next records when the file `die` is there."""

    def __init__(self, site: Site, url: str, folder: Path) -> None:
        self.site, self.url, self.folder = site, url, folder
        self.spark: SparkProcess | None = None

    def start(self, build: str, *more: str) -> None:
        self.spark = SparkProcess(self.site, "a", self.folder, f"{PIPELINE}:{build}", more)
        self.spark.registered()

    def dies(self, number: int) -> None:
        """With these further records of each partition."""
        (self.folder / "die").touch()
        self.site.produce(number, start=number)
        assert self.spark is not None
        process = self.spark.process
        wait_for(lambda: process.poll() is not None, "a dies within a batch", START_S)

    def seen(self) -> list[tuple[int, int, str]]:
        database = Database(self.url)
        question = f'SELECT "partition", "offset", writer FROM {TABLE} WHERE topic = ? ORDER BY 1, 2'
        with database.transaction() as cursor:
            found = cursor.query(question, [self.site.topic])
        database.close()
        return [(partition, offset, writer) for partition, offset, writer in found]

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "said").read_text().splitlines()]

    def close(self) -> None:
        if self.spark is not None:
            self.spark.close()


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    url = sink_url(request, tmp_path)
    for name, value in {"database": url, "die": tmp_path / "die", "said": tmp_path / "said"}.items():
        monkeypatch.setenv(f"PIPELINE_{name}", str(value))
    made = Stage(site, url, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("stage", ["postgresql"], indirect=True)
def test_a_driver_that_dies_inside_its_transaction_leaves_nothing_lost_and_nothing_doubled(stage: Stage) -> None:
    site = stage.site
    stage.start("build", "--interceptor", f"{PIPELINE}:Dropping", "--listener", f"{PIPELINE}:Telling")
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: site.runs("a") == dict.fromkeys(range(2), True), "a begins, with an empty batch", START_S)
    time.sleep(2 * LONGEST_WAIT_S)
    site.produce(300)
    site.producer.produce(site.topic, UNWANTED, partition=1)
    site.producer.flush()
    wait_for(lambda: site.committed().get(1, Committed(0)).offset == 301, "a processes everything", START_S)
    told = sorted((int(p), offset, one["topic"]) for one in stage.said() for p, offset in one["assigned"].items())
    assert told == [(0, 0, site.topic), (1, 0, site.topic)], "its listener is told once of each partition"
    stage.dies(300)
    assert stage.seen() == [(p, offset, "spark") for p in range(2) for offset in range(300)]
    # The group is ahead: somebody has committed what never reached the sink.
    site.offsets.commit(site.topic, {0: Committed(500, Token(site.node.since[0], 1, "g1"), "a", site.cluster)})
    plain = Consumer(site, "b", Output(delivery=Delivery.EXACTLY_ONCE, store=sink_of(stage.url, "plain")))
    site.assign(dict.fromkeys(range(2), "b"), guarded=frozenset(range(2)))
    wait_for(lambda: all(site.committed()[p].offset == 600 + p for p in range(2)), "b processes the rest", START_S)
    rest = [(0, offset) for offset in range(300, 600)] + [(1, offset) for offset in range(301, 601)]
    assert [(p, offset) for p, offset, writer in stage.seen() if writer == "plain"] == rest
    assert len(stage.seen()) == 1200
    assert plain.close() == 0
