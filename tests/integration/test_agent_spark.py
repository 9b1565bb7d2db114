"""Spark consumers on real servers, as processes; the test writes what the coordinator would."""

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.model import Ending
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.spark.session import STARTUP
from tests.audit_rows import read_audit
from tests.integration.agent_site import Site, Traffic, another_topic, wait_for
from tests.integration.kafka_topics import expire
from tests.integration.spark_submit import SUBMIT

pytestmark = [pytest.mark.integration, pytest.mark.promise, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
START_S = 150.0


class SparkProcess:
    """A consumer application under spark-submit."""

    def __init__(
        self,
        site: Site,
        consumer: str,
        folder: Path,
        default: str = "spark_apps.pipelines.audit:build",
        more: tuple[str, ...] = (),
    ) -> None:
        self.site, self.consumer = site, consumer
        self.log = folder / f"{consumer}-{time.monotonic_ns()}.log"
        where = ("--consumer", consumer, *site.where)
        what = (
            *(("--default", default) if default else ()),
            "--set",
            f"auditFolder={folder / 'rows'}",
            "--session-timeout",
            "4",
        )
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [*SUBMIT, str(ROOT / "spark_apps" / "main.py"), *where, *what, *more, "--close-timeout", "10"],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )

    def runs(self) -> None:
        assert self.process.poll() is None, self.said()

    def said(self) -> str:
        return self.log.read_text()[-3000:]

    def registered(self) -> None:
        path = self.site.paths.member(self.consumer)
        wait_for(
            lambda: self.site.zk.find(path) or self.process.poll() is not None, f"{self.consumer} registers", START_S
        )
        self.runs()

    @property
    def driver(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return next(one for one in children if any(part.endswith("main.py") for part in _command_line(one)))

    def import_path(self) -> str:
        """The import path that Spark gives to its Python processes, as one of them has it."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return next(one.environ()["PYTHONPATH"] for one in found if "pyspark.worker" in _command_line(one))

    def kill(self) -> None:
        """Kill -9 of everything at once, as a host that dies."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def leave(self) -> int:
        self.driver.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended, or is a zombie: one of the workers
        return []


class World:
    """Two Spark consumers and what they wrote."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.a, self.b = SparkProcess(site, "a", folder), SparkProcess(site, "b", folder)

    def close(self) -> None:
        self.a.close()
        self.b.close()
        self.site.close()

    def rows(self, partition: int) -> list[dict[str, Any]]:
        try:
            found = [row for row in read_audit(self.folder / "rows") if row["partition"] == partition]
        except sqlite3.OperationalError:  # a writer has made its file and not yet its table
            return []
        return sorted(found, key=lambda row: row["processed_at"])

    def offsets(self, partition: int) -> list[int]:
        return sorted(row["offset"] for row in self.rows(partition))

    def last(self, partition: int) -> str:
        rows = self.rows(partition)
        return str(rows[-1]["consumer"]) if rows else ""

    def longest_pause_s(self, partition: int, after: float) -> float:
        times = [row["processed_at"] for row in self.rows(partition) if row["processed_at"] >= after]
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)


@pytest.fixture(scope="module")
def world(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    made = World(site, tmp_path_factory.mktemp("spark"))
    try:
        made.a.registered()
        made.b.registered()
        yield made
    finally:
        made.close()


def test_a_hand_off_happens_inside_two_running_queries(world: World) -> None:
    site = world.site
    site.assign(dict.fromkeys(range(4), "a"))
    traffic = Traffic(site, per_second=100)
    try:
        wait_for(lambda: site.runs("a") == dict.fromkeys(range(4), True), "a runs everything", START_S)
        wait_for(lambda: len(world.rows(0)) > 300, "records flow", START_S)
        assert str(STARTUP) in world.a.import_path(), "Spark's Python processes start in a third of the time"
        # The taker's query has run before: its first batch ever costs seconds, which are no part of a hand-off.
        site.hand_off({3: "b"})
        wait_for(lambda: world.last(3) == "b", "b has read something", START_S)
        site.assign({0: "a", 1: "a", 2: "a", 3: "b"})
        wait_for(lambda: site.runs("b") == {3: True} and len(world.rows(3)) > 600, "b runs warm", START_S)
        began = time.time()
        node = site.hand_off({2: "b"})
        wait_for(lambda: world.last(2) == "b", "b has taken over")
        first = next(row["processed_at"] for row in world.rows(2) if row["consumer"] == "b")
        time.sleep(2)
    finally:
        sent = traffic.close()
    wait_for(lambda: all(len(world.offsets(p)) >= sent for p in range(4)), "everything is consumed", START_S)
    assert {p: world.offsets(p) for p in range(4)} == {p: list(range(sent)) for p in range(4)}
    release = site.release(2)
    assert release is not None
    assert (release.epoch, release.by) == (node.epoch, "a")
    pauses = {p: round(world.longest_pause_s(p, began - 1.0) * 1000) for p in range(4)}
    print(f"\nhand-off between Spark queries: {(first - began) * 1000:.0f} ms; longest pauses (2 moved) {pauses} ms")


def test_after_kill_9_with_a_batch_pending_a_new_incarnation_starts_from_the_committed_position(world: World) -> None:
    site = world.site
    site.produce(500)
    first = site.incarnation("b")
    world.b.kill()
    committed = site.committed()
    wait_for(lambda: site.zk.find(site.paths.member("b")) is None, "b's session ends")
    world.b = SparkProcess(site, "b", world.folder)
    world.b.registered()
    second = site.incarnation("b")
    assert second > first
    site.assign({0: "a", 1: "a", 2: "b", 3: "b"}, guarded=frozenset({2, 3}))
    wait_for(lambda: site.runs("b") == {2: True, 3: True}, "the new b runs", START_S)
    ends = site.offsets.ends(site.topic, range(4))
    wait_for(
        lambda: all(set(world.offsets(p)) >= set(range(ends[p])) for p in range(4)), "everything is consumed", START_S
    )
    for partition in (2, 3):
        again = [
            row["offset"] for row in world.rows(partition) if (row["consumer"], row["incarnation"]) == ("b", second)
        ]
        assert min(again) == committed[partition].offset
    entry = site.committed()[2]
    assert entry.token is not None
    assert (entry.token.epoch, entry.token.incarnation) == (site.node.since[2], second)


def test_sigterm_gives_everything_away_before_the_consumer_is_gone(world: World) -> None:
    site = world.site
    leaving = world.a.driver
    leaving.send_signal(signal.SIGTERM)
    path = site.paths.directive("a")
    wait_for(lambda: site.zk.find(path), "the draining mark is there")
    site.hand_off({0: "b", 1: "b"})
    wait_for(lambda: world.a.process.poll() is not None, "a is gone")
    assert world.a.process.returncode == 0, world.a.log.read_text()[-3000:]
    claim = decode_claim("", site.zk.get(site.paths.id("a")).data, "a", 0)
    assert list(claim.ended.values()) == [Ending.LEFT]
    assert site.zk.find(site.paths.member("a")) is None
    wait_for(lambda: site.runs("b").keys() == {0, 1, 2, 3}, "b runs everything")


def test_where_retention_strikes_in_the_middle_of_a_batch_only_that_partition_stops(world: World) -> None:
    site, gate = world.site, world.folder / "rows" / "closed"
    ends = site.offsets.ends(site.topic, range(4))
    wait_for(lambda: site.positions() == ends, "everything is committed", START_S)
    world.b.close()
    wait_for(lambda: site.zk.find(site.paths.member("b")) is None, "b's session ends")
    world.b = SparkProcess(site, "b", world.folder, "tests.integration.poisoned_pipeline:build")
    world.b.registered()
    site.assign({2: "b", 3: "b"}, guarded=frozenset({2, 3}))
    wait_for(lambda: site.runs("b").keys() == {2, 3}, "b runs two", START_S)
    incarnation, lost = site.incarnation("b"), site.committed()[3].offset
    gate.touch()
    site.produce(60)
    wait_for((world.folder / "rows" / "waiting").exists, "a batch is planned and not read", START_S)
    expire(site.kafka, site.topic, 3, lost + 40)
    began = time.monotonic()
    gate.unlink()
    end = site.offsets.ends(site.topic, [2])[2]
    wait_for(lambda: site.committed()[2].offset == end, "the other partition goes on", START_S)
    print(f"\nthe other partition was committed after {time.monotonic() - began:.1f} s")
    says = (
        f"partition 3: offsets {lost} to {lost + 39} are gone, the log begins at {lost + 40}: stopped; reset its offsets, "
        "or set failOnDataLoss=false"
    )
    # A busy host may plan the held batch before the records of partition 3 are there; the next batch then meets the gap.
    wait_for(lambda: says in site.topic_status("b").reports, "what is gone is told", START_S)
    assert site.runs("b") == {2: True}
    assert site.committed()[3].offset == lost
    assert (site.incarnation("b"), world.b.process.poll()) == (incarnation, None)


def test_a_pipeline_that_raises_for_one_record_stops_its_partition_alone(world: World) -> None:
    """The topic's other partition goes on, and the other topic is not even disturbed; the record is never committed."""
    site, other, owned = world.site, another_topic(world.site), dict.fromkeys(range(2), "b")

    def passes(of: Site, partition: int) -> float:
        """Seconds until everything of the partition is committed."""
        end = of.offsets.ends(of.topic, [partition])[partition]
        return wait_for(lambda: of.committed()[partition].offset == end, "it is consumed", START_S)

    site.assign(owned, guarded=frozenset(owned))
    other.assign(owned)
    for each in (site, other):
        each.produce(10)
        wait_for(lambda each=each: each.runs("b") == {0: True, 1: True}, "b runs everything", START_S)
        passes(each, 1)
    place, incarnation = site.positions()[1], site.incarnation("b")
    site.producer.produce(site.topic, b"poison", partition=1)
    site.produce(10)
    said = f"partition 1 waits at offset {place}: ValueError: this sink does not bear poison (failed "
    wait_for(lambda: any(said in text for text in site.topic_status("b").reports), "it is said", START_S)
    wait_for(lambda: site.status("b").health.startswith("failing: topic "), "its health says so", 2)
    for _ in range(3):
        for each in (other, site):
            each.produce(10)
            print(f"\n{each.topic}: committed after {passes(each, 0):.1f} s")
    assert (site.committed()[1].offset, site.incarnation("b"), world.b.process.poll()) == (place, incarnation, None)
    site.write(replace(site.node, paused=frozenset({1})))
    wait_for(lambda: site.status("b").health == "ok", "a paused partition fails no more", START_S)
    assert world.b.leave() == 0, "it waits for no try"
