"""State moves with its partition on real servers: by a hand-off, and after a driver's death inside its transaction."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from spark_apps.delivery.database import Database
from tests.integration.agent_site import Site, wait_for
from tests.integration.stateful_pipeline import CLOSED, TABLE, make_closed, prepare
from tests.integration.test_agent_spark import START_S, SparkProcess
from tests.postgres_server import sink_url

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400), pytest.mark.partitions(2)]
PIPELINE = "tests.integration.stateful_pipeline:build"
KEYS = 7
WINDOWS = "tests.integration.stateful_pipeline:windows"


class Stage:
    """A topic of two partitions with keys, and applications that count them."""

    def __init__(self, site: Site, url: str, folder: Path) -> None:
        self.site, self.url, self.folder = site, url, folder
        self.sent: Counter[str] = Counter()
        database = Database(url)
        with database.transaction() as cursor:
            prepare(cursor)
        database.close()
        self.spark: dict[str, SparkProcess] = {}

    def start(self, names: str) -> None:
        for name in names:
            settings = ("--set", f"database={self.url}", "--set", f"die={self.folder / 'die'}-{name}")
            self.spark[name] = SparkProcess(self.site, name, self.folder, PIPELINE, settings)
        for name in names:
            self.spark[name].registered()

    def produce(self, number: int) -> None:
        """Send records, a few keys in each partition."""
        for place in range(number):
            for partition in range(2):
                key = f"p{partition}-k{place % KEYS}"
                self.site.producer.produce(self.site.topic, b"{}", key=key, partition=partition)
                self.sent[key] += 1
        self.site.producer.flush()

    def counted(self) -> dict[str, int]:
        database = Database(self.url)
        with database.transaction() as cursor:
            found = cursor.query(f"SELECT key, count FROM {TABLE}")
        database.close()
        return dict(found)

    def counts_all(self, what: str) -> None:
        wait_for(lambda: self.counted() == dict(self.sent), what, START_S)

    def close(self) -> None:
        for process in self.spark.values():
            process.close()


@pytest.fixture
def stage(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(site, sink_url(request, tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("stage", ["postgresql"], indirect=True)
def test_totals_agree_with_the_log_after_hand_offs_and_a_death_inside_the_transaction(stage: Stage) -> None:
    site = stage.site
    stage.start("ab")
    stage.produce(300)
    site.assign(dict.fromkeys(range(2), "a"))
    stage.counts_all("a counts everything")
    for taker in "bab":
        site.hand_off({0: taker})
        stage.produce(100)
        stage.counts_all(f"{taker} counts on from the state of the former owner")
        wait_for(lambda taker=taker: site.runs(taker).get(0), f"{taker} runs the partition", START_S)
        site.assign({0: taker, 1: "a"})
        stage.produce(100)
        stage.counts_all(f"both count on after {taker} has taken the partition")
    (stage.folder / "die-a").touch()
    stage.produce(50)
    dying = stage.spark["a"].process
    wait_for(lambda: dying.poll() is not None, "a dies inside its transaction", START_S)
    site.assign(dict.fromkeys(range(2), "b"), guarded=frozenset({1}))
    stage.produce(50)
    stage.counts_all("b counts on from the state that a has left")


def test_after_a_re_hash_every_key_counts_on_in_a_topic_with_more_partitions(stage: Stage) -> None:
    site, keys = stage.site, [f"k{number}" for number in range(40)]

    def send(what: str) -> None:
        producer = Producer({"bootstrap.servers": site.kafka, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce(site.topic, b"{}", key=key)
        producer.flush()
        stage.sent.update(keys)
        stage.counts_all(what)

    command = [
        sys.executable,
        "-m",
        "coordinator_tasks",
        "state",
        "rehash",
        stage.url,
        site.topic,
        "--execute",
        "--json",
    ]
    stage.start("a")
    site.assign(dict.fromkeys(range(2), "a"))
    send("a counts each key in two partitions")
    admin = AdminClient({"bootstrap.servers": site.kafka})
    admin.create_partitions([NewPartitions(site.topic, 3)])[site.topic].result(20)
    site.zk.ensure(site.paths.partition(site.topic, 2))
    site.assign(dict.fromkeys(range(3), "a"))
    wait_for(lambda: "KPC-100" in str(site.status("a").topics[site.topic].reports), "a holds the topic", START_S)
    done = subprocess.run(command, env={**os.environ, **site.environment}, capture_output=True, timeout=60, check=True)
    (moves,) = json.loads(done.stdout)
    assert (moves["keys"], moves["before"], moves["after"], moves["partitioner"]) == (len(keys), 2, 3, "murmur2")
    send("a counts each key on in three partitions")


def test_the_windows_of_idle_partitions_close_without_a_later_record(site: Site, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rows.sqlite"
    process = SparkProcess(site, "a", tmp_path, WINDOWS, ("--set", f"database={url}"))
    database = Database(url)
    with database.transaction() as cursor:
        make_closed(cursor)
    try:
        process.registered()
        site.assign(dict.fromkeys(range(2), "a"))
        for partition in range(2):
            site.producer.produce(site.topic, b"{}", key=f"k{partition}", partition=partition)
        site.producer.flush()

        def closed() -> list[tuple[str, int]]:
            with database.transaction() as cursor:
                return sorted(cursor.query(f"SELECT key, number FROM {CLOSED}"))

        wait_for(lambda: closed() == [("k0", 1), ("k1", 1)], "both windows close", START_S)
    finally:
        database.close()
        process.close()
