"""Breakdown of a moved partition's time.

From the plan in ZooKeeper to its first record in the sink of a Spark consumer.

    PYTHONPATH=. python -m benchmarks.receiver [--moves 30] [--interval 0.2] [--json FILE]

A plain consumer and a Spark consumer (local[2], a `foreachBatch` that writes a file) share 12 partitions with steady
traffic; one partition goes to the Spark consumer and back, repeatedly, by hand-offs written here in the coordinator's
way. The steps are stamped in the Spark consumer's driver, this process:

- `plan seen`: from the write to the consumer's read;
- `release seen`: until the giver's release is read (including the giver's last batch and commit);
- `start committed`: until the start is in Kafka under the new token;
- `end known`: until the log's end is known;
- `waiting for Spark`: until Spark asks for a batch: the batch under way, and its own loop;
- `planning`: until `foreachBatch` is called;
- `fetch`: until the records are in the driver;
- `sink`: until the sink has written them to a file and `foreachBatch` has returned.

The warm-up is not included, since it precedes the registration. Its duration is shown beside the steps, once.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import noted, told
from benchmarks.result import grid, output, report, whole
from benchmarks.source import spread
from coordinator_tasks.core.model import Release, TopicNode
from coordinator_tasks.core.protocol.holding import Reading
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.agent.ownership.batches import Batches
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.agent.settings import Pacing
from spark_apps.consumer import Consumer, SparkSettings
from spark_apps.records.batches import Range
from spark_apps.spark import session
from spark_apps.spark.warm_up import warm_up
from tests.integration.agent_site import Site, Traffic, wait_for

PARTITIONS, MOVED = 12, 0
PLAIN, SPARK = "plain", "spark"
WARM_UP = "warm-up, once"
STEPS = ("plan seen", "release seen", "start committed", "end known", "waiting for Spark", "planning", "fetch", "sink")
SAID = {
    "plan seen": "plan read: from the write in ZooKeeper until the consumer has read it",
    "release seen": "release read: includes the giver's last batch and its commit",
    "end known": "end of the log known",
    "waiting for Spark": "waiting for Spark: until it asks for a batch; includes the batch under way and its own loop",
    "planning": "planning: until `foreachBatch` is called",
    "fetch": "fetch: until the records are in the driver",
    "sink": "sink: until it has written them to a file and returned",
    WARM_UP: "warm-up, once: before the consumer registers, so that no partition waits for it",
}
SPREAD = ("min", "median", "p95", "max")
LIMIT_S = 120.0


class Stamps:
    """First time of each step of the present move; `place` is the next step."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self._epoch = 0
        self._lock = threading.Lock()

    def begin(self, epoch: int) -> None:
        with self._lock:
            self.at, self._epoch = [time.monotonic()], epoch

    def reach(self, step: str, epoch: int = 0) -> None:
        with self._lock:
            if self.at and epoch in (0, self._epoch) and len(self.at) == STEPS.index(step) + 1:
                self.at.append(time.monotonic())

    @property
    def complete(self) -> bool:
        return len(self.at) == len(STEPS) + 1

    def steps_ms(self) -> dict[str, float]:
        found = {step: (self.at[n + 1] - self.at[n]) * 1000 for n, step in enumerate(STEPS)}
        return {**found, "in all": (self.at[-1] - self.at[0]) * 1000}


def on_node(stamps: Stamps, _: Grants, reading: Reading, seen: TopicNode) -> None:
    if reading is Reading.ACT and MOVED in seen.handoff:
        stamps.reach("plan seen", seen.handoff[MOVED].epoch)


def on_releases(stamps: Stamps, _: Grants, __: None, releases: Mapping[int, Release]) -> None:
    if MOVED in releases:
        stamps.reach("release seen", releases[MOVED].epoch)


def acknowledge(stamps: Stamps, held: OwnedPartition, *_: Any) -> None:
    if held.grant.partition == MOVED and held.phase is Phase.READY:
        stamps.reach("start committed", held.token.epoch)


def on_end(stamps: Stamps, held: OwnedPartition, *_: Any) -> None:
    if held.grant.partition == MOVED and held.log.offset is not None and held.log.offset > held.position:
        stamps.reach("end known", held.token.epoch)


def hand_out(stamps: Stamps, _: Batches, __: None, ___: int, ranges: Sequence[Range]) -> None:
    for one in ranges:
        if one.partition == MOVED:
            stamps.reach("waiting for Spark", one.token_epoch)


def watch(stamps: Stamps) -> None:
    """Let the consumer's own classes stamp their steps."""
    for kind, name, note in (
        (Grants, "on_node", on_node),
        (Grants, "on_releases", on_releases),
        (OwnedPartition, "acknowledge", acknowledge),
        (OwnedPartition, "see_end", on_end),
        (Batches, "hand_out", hand_out),
    ):
        setattr(kind, name, stamped(stamps, getattr(kind, name), note))


def stamped(stamps: Stamps, original: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def call(self: Any, *given: Any) -> Any:
        result = original(self, *given)
        note(stamps, self, result, *given)
        return result

    return call


class Moves:
    """The coordinator's part, in a thread: moves the partition and collects the stamps."""

    def __init__(self, site: Site, stamps: Stamps, count: int, consumer: Consumer) -> None:
        self.found: list[dict[str, float]] = []
        self._site, self._stamps, self._count, self._consumer = site, stamps, count, consumer
        self.thread = threading.Thread(target=self._run, daemon=True)

    def whole(self) -> list[dict[str, float]]:
        """The steps of each move. Raises `SystemExit` if some are missing."""
        if len(self.found) < self._count:
            sys.exit(f"{len(self.found)} of {self._count} moves were measured; what ended them is above")
        return self.found

    def _run(self) -> None:
        try:
            self._move()
        finally:
            self._consumer.leave(1.0)

    def _move(self) -> None:
        site = self._site
        for consumer in (PLAIN, SPARK):
            wait_for(lambda: site.zk.find(site.paths.member(consumer)), f"{consumer} registers", LIMIT_S)  # noqa: B023
        site.assign({p: PLAIN if p < PARTITIONS // 2 else SPARK for p in range(PARTITIONS)})
        self._runs(SPARK, range(PARTITIONS // 2, PARTITIONS))
        time.sleep(10)  # the first batches are slower than all later ones
        for number in range(self._count):
            self._runs(PLAIN, [MOVED])
            time.sleep(0.5 + number % 7 * 0.07)  # not in step with the batches
            self._stamps.begin(site.node.epoch + 1)
            self._hand_over(SPARK)
            wait_for(lambda: self._stamps.complete, "the first record", LIMIT_S)
            self.found.append(self._stamps.steps_ms())
            self._hand_over(PLAIN)

    def _hand_over(self, taker: str) -> None:
        site = self._site
        entry = site.hand_off({MOVED: taker}).epoch
        wait_for(lambda: self._released(entry), f"the release of epoch {entry}", LIMIT_S)
        self._runs(taker, [MOVED])
        owners = {**site.node.assignments, MOVED: taker}
        since = {**site.node.since, MOVED: entry}
        site.write(replace(site.node, assignments=owners, since=since, handoff={}))

    def _released(self, epoch: int) -> bool:
        release = self._site.release(MOVED)
        return release is not None and release.epoch == epoch

    def _runs(self, consumer: str, partitions: Any) -> None:
        wait_for(lambda: set(partitions) <= self._site.runs(consumer).keys(), f"{consumer} runs {partitions}", LIMIT_S)


def measure(moves: int, interval_s: float) -> dict[str, Any]:
    stamps = Stamps()
    watch(stamps)

    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))

        def build(stream: DataFrame, _: Mapping[str, str]) -> DataStreamWriter:
            return stream.writeStream.foreachBatch(partial(write, stamps, folder / "rows.csv"))

        zookeeper = ending.enter_context(EmbeddedZooKeeper(folder / "zookeeper"))
        kafka = ending.enter_context(EmbeddedKafka(folder / "kafka"))
        site = Site(zookeeper.connect_string, kafka.bootstrap_servers, PARTITIONS)
        ending.callback(site.close)
        ending.enter_context(plain(site, folder))
        traffic = Traffic(site, per_second=20)
        ending.callback(traffic.close)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = session.configure(builder).getOrCreate()
        ending.callback(spark.stop)
        settings = ConsumerSettings(site.settings, SPARK, pacing=Pacing(batch_interval_s=interval_s))
        with Consumer(spark, settings, SparkSettings(warm_up=False)) as consumer:
            consumer.pipeline(site.topic, build)
            writer = Moves(site, stamps, moves, consumer)
            began_s = time.monotonic()
            warm_up(spark, site.settings.kafka["bootstrap.servers"])
            warm_up_ms = (time.monotonic() - began_s) * 1000
            writer.thread.start()
            consumer.run()
            writer.thread.join()
    found = {step: [one[step] for one in writer.whole()] for step in (*STEPS, "in all")}
    return {"steps_ms": {step: spread(values) for step, values in {**found, WARM_UP: [warm_up_ms]}.items()}}


def write(stamps: Stamps, file: Path, batch: DataFrame, _: int) -> None:
    """The sink."""
    stamps.reach("planning")
    rows = batch.select("partition", "offset").toArrow()
    moved = MOVED in rows["partition"].to_pylist()
    if moved:
        stamps.reach("fetch")
    with file.open("ab") as out:
        csv.write_csv(rows, out)
    if moved:
        stamps.reach("sink")


def plain(site: Site, folder: Path) -> ManagedProcess:
    command = (
        *(sys.executable, "-m", "spark_apps.plain", "--consumer", PLAIN, "--cluster", site.cluster),
        *("--zookeeper", site.zookeeper, "--kafka", site.kafka, "--sink", os.devnull),
    )
    root = Path(__file__).resolve().parent.parent
    return ManagedProcess(ProcessSpec(PLAIN, command, folder / "plain.log", cwd=root), ready=lambda: True)


def show(result: dict[str, Any]) -> None:
    load = f"load {result['load_before']:.1f} to {result['load_after']:.1f}"
    table = Table(title=f"{result['moves']} moves, a batch every {result['interval_s']:g} s, ms, {load}")
    for name in ("", *SPREAD):
        table.add_column(name, justify="right" if name else "left")
    for step, value in result["steps_ms"].items():
        table.add_row(step, *(f"{value[name]:.0f}" for name in SPREAD))
    Console().print(table)


def markdown(result: Mapping[str, Any]) -> str:
    """A row for each step, in milliseconds."""
    rows = [
        [
            SAID.get(step, step),
            *(f"{value[name]:,.0f}" if name == "median" or value["n"] > 1 else "" for name in SPREAD),
        ]
        for step, value in result["steps_ms"].items()
    ]
    how = (f"{result['moves']} moves", f"a batch every {result['interval_s']:g} s")
    return f"{told(result, *how)}\n\n{grid(('step', *SPREAD), rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=whole, default=30)
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between the batches of the Spark consumer")
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    with noted(moves=given.moves, interval_s=given.interval) as result:
        result.update(measure(given.moves, given.interval))
    report(result, show, given.json)


if __name__ == "__main__":
    main()
