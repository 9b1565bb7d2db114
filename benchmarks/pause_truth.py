"""Difference between the history's pauses and the sinks' rows: plain consumers that join and leave under load.

    python -m benchmarks.pause_truth [--pauses 100] [--partitions 12] [--per-second 100] [--json FILE]

A row has the producer's time of its record and its consumer's time of the write. It is independent of ZooKeeper, of the
agent and of its status, the sources of the history's pauses. The benchmark runs twice: with the same clock, and with
clocks that differ by minutes. Each consumer is a separate process, and the servers are this script's. The file has
every pause.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import PROJECT, circumstances, told
from benchmarks.pause_predictions import ACTOR, LIMIT_S, MEASURE_S, TOPIC, owners, traffic, until
from benchmarks.plain_loop import looping
from benchmarks.result import grid, kept, output, report, verdict, whole
from benchmarks.servers import served
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Record
from coordinator_tasks.devstack.demo import stalls
from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.devstack.demo.stalls import MeasuredStall
from coordinator_tasks.devstack.embedded.processes import marked_environment
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, topics
from coordinator_tasks.service.plan import pauses
from coordinator_tasks.wiring import Settings, open_coordinator

SHIFT_S = 420.0
CLOCKS = {"one clock": 0.0, "clocks that differ by 14 minutes": SHIFT_S}
"""A staying consumer is behind by this, and the joining and leaving consumers are ahead by this."""
TARGET_MS = 10.0
"""The median of the error, on one host."""
RECORDS = 10_000
FEWEST = 2
"""Minimum of pauses for a summary."""
SHIFTED = """
import runpy, time
real = time.time
time.time = lambda: real() + {shift_s}
time.time_ns = lambda: int(time.time() * 1e9)
runpy.run_module("spark_apps.plain", run_name="__main__", alter_sys=True)
"""
"""A consumer on a host with a wrong clock: our code reads the time of day only through Python.

Under libfaketime librdkafka never ends a wait: it shifts the time compared with a wait, and not the wait.
"""


@dataclass
class Plain:
    """A consumer as a separate process, whose clock is ahead of this process's by `shift_s`. It ends with this process."""

    settings: Settings
    name: str
    folder: Path
    shift_s: float = 0.0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        servers = ("--zookeeper", self.settings.zookeeper, "--kafka", self.settings.kafka["bootstrap.servers"])
        given = ("--consumer", self.name, "--cluster", self.settings.cluster, *servers, "--sink", str(self.rows))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHIFTED.format(shift_s=self.shift_s), *given],
            cwd=PROJECT,
            env=marked_environment({"PYTHONPATH": str(PROJECT)}),
            stderr=(self.folder / f"{self.name}.log").open("wb"),
        )

    @property
    def rows(self) -> Path:
        """Return its sink."""
        return self.folder / f"{self.name}.jsonl"

    def seen(self) -> list[Row]:
        """The rows so far, in the time of this process."""
        lines = self.rows.read_text().splitlines() if self.rows.exists() else []
        return [self._row(json.loads(line)) for line in lines if line.endswith("}")]

    def _row(self, one: Mapping[str, Any]) -> Row:
        where, at = (one["partition"], one["offset"]), one["processed_at"] - self.shift_s
        return Row(one["consumer"], 0, one["epoch"], *where, 0, one["produced_at"], at)

    def leave(self) -> None:
        """By hand-offs."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(LIMIT_S):
            raise RuntimeError(f"{self.name} has left with {self.process.returncode}")

    def kill(self) -> None:
        """Kill it at once, if it still runs."""
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True, slots=True)
class Compared:
    """One pause: in the history, with its stated bound, and as the stall of the rows."""

    rebalance: str
    partition: int
    wait_s: float
    error_s: float
    stall_s: float
    records: int

    @property
    def off_s(self) -> float:
        """How much longer the history's is."""
        return self.wait_s - self.stall_s

    @property
    def row(self) -> dict[str, Any]:
        """For the file, in milliseconds."""
        names = ("pause_ms", "stated_error_ms", "rows_ms", "off_ms")
        times = zip(names, (self.wait_s, self.error_s, self.stall_s, self.off_s), strict=True)
        return {
            "partition": self.partition,
            **{name: round(1000 * one, 1) for name, one in times},
            "records": self.records,
        }


def compared(records: Sequence[Record], rows: Sequence[Row]) -> list[Compared]:
    """Return the pauses of these records (oldest first) known from both sides, each with the stall of the same hand-off."""
    produced = {(row.partition, row.offset): Produced(row.partition, row.offset, 0, row.produced_at) for row in rows}
    by_rows = stalls.stalls(list(produced.values()), rows)
    first_at: dict[tuple[int, int], float] = {}
    for row in rows:
        key = (row.partition, row.epoch)
        first_at[key] = min(first_at.get(key, row.processed_at), row.processed_at)
    found: list[Compared] = []
    for name, some in groupby(records, key=lambda one: one.rebalance):
        of_it = list(some)
        taken = {move.partition: one.epoch for one in of_it for move in one.moves}
        for pause in of_it[-1].pauses.measured if of_it[-1].pauses is not None else ():
            key = (pause.partition, taken.get(pause.partition, 0))
            if pause.wait_s is None or pause.least or key not in first_at:
                continue
            stall = _ended_at(by_rows[pause.partition], first_at[key])
            found.append(Compared(name, pause.partition, pause.wait_s, pause.error_s, stall.length_s, pause.records))
    return found


def _ended_at(found: Sequence[MeasuredStall], at: float) -> MeasuredStall:
    """Return the stall that ends with the taker's first row."""
    return next(stall for stall in found if stall.until_at >= at)


def run(
    zookeeper: str, kafka: str, given: argparse.Namespace, shift_s: float, folder: Path
) -> tuple[list[Compared], list[float], list[str]]:
    """Join and leave until enough pauses are known from both sides, or one fails.

    Also returns the load of the machine before each event, and the failures.
    """
    client = {"bootstrap.servers": kafka, "log_level": "1"}
    settings = Settings("truth", zookeeper, client, policy=Policy(settle_s=0.2))
    ConfluentKafkaAdmin(client).create_topic(TOPIC, given.partitions)
    found: list[Compared] = []
    loads: list[float] = []
    failures: list[str] = []
    with kept(failures), ExitStack() as stack:

        def start(name: str, ahead_s: float = 0.0) -> Plain:
            everybody.append(Plain(settings, name, folder, ahead_s))
            stack.callback(everybody[-1].kill)
            return everybody[-1]

        everybody: list[Plain] = []
        c = stack.enter_context(open_coordinator(settings))
        topics.add_topic(c, TOPIC, "truth", actor=ACTOR)
        stack.enter_context(looping(stack.enter_context(open_coordinator(settings))))
        staying = [start("a", -shift_s), start("b")]
        until(lambda: owners(c) == 2, "two consumers share the topic")
        with kept(failures):
            with traffic(kafka, given.partitions, given.per_second):
                until(lambda: all(one.seen() for one in staying), "records flow")
                for number in count():
                    if _measured(c) >= given.pauses:
                        break
                    # An id that returns repeatedly gets no partitions for a while.
                    loads += [os.getloadavg()[0]]
                    guest = start(f"guest-{number}", shift_s)
                    _rest(c, 3)
                    loads += [os.getloadavg()[0]]
                    guest.leave()
                    _rest(c, 2)
                    print(f"{_measured(c)} of {given.pauses} pauses", file=sys.stderr)
            for one in staying:
                one.leave()
        rows = [row for one in everybody for row in one.seen()]
        found += compared(history.records(c, TOPIC, RECORDS)[::-1], rows)
    return found, loads, failures


def _rest(c: Coordinator, sharing: int) -> None:
    """Wait until `sharing` consumers own partitions, and their pauses are measured."""
    until(lambda: owners(c) == sharing, f"{sharing} consumers share the topic")
    pauses.complete_within(c, [TOPIC], MEASURE_S)


def _measured(c: Coordinator) -> int:
    found = (one.pauses for one in history.records(c, TOPIC, RECORDS) if one.pauses is not None)
    return sum(pause.wait_s is not None and not pause.least for some in found for pause in some.measured)


def summed_up(clocks: str, found: Sequence[Compared], loads: Sequence[float]) -> dict[str, Any]:
    """How far the history is from the rows, in milliseconds."""
    errors = sorted(abs(one.off_s) for one in found)
    times = {
        "pause_ms_median": median(one.wait_s for one in found),
        "rows_ms_median": median(one.stall_s for one in found),
        "error_ms_median": median(errors),
        "error_ms_nine_in_ten": quantiles(errors, n=10)[-1],
        "error_ms_most": errors[-1],
        "longer_ms_median": median(one.off_s for one in found),
        "stated_ms_median": median(one.error_s for one in found),
    }
    return {
        "clocks": clocks,
        "pauses": len(found),
        **{name: round(1000 * one, 1) for name, one in times.items()},
        "within_stated": round(sum(abs(one.off_s) <= one.error_s for one in found) / len(found), 3),
        "load_least": round(min(loads), 2),
        "load_median": round(median(loads), 2),
        "load_most": round(max(loads), 2),
    }


_COLUMNS = {
    "pauses": "pauses",
    "rows_ms_median": "pause by the rows, median ms",
    "error_ms_median": "history off by, median ms",
    "error_ms_nine_in_ten": "of nine in ten at most, ms",
    "error_ms_most": "most, ms",
}


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each setting of the clocks, with the target met or missed."""
    asked, rows = result["asked"], list[list[str]]()
    for one in result["summary"]:
        load = f"{one['load_least']:.1f}, {one['load_median']:.1f}, {one['load_most']:.1f}"
        target = verdict((one["error_ms_median"] < TARGET_MS, f"median < {TARGET_MS:g} ms"))
        within = f"{100 * one['within_stated']:.0f} %"
        rows.append([one["clocks"], load, *(f"{one[name]:,}" for name in _COLUMNS), within, target])
    every = (*_COLUMNS.values(), "within the error that the history states")
    titles = ("clocks", "load of the machine (least, median, most)", *every, "target")
    how = f"{asked['partitions']} partitions with {asked['per_second']:g} records/s each"
    return f"{told(result['circumstances'], how)}\n\n{grid(titles, rows, ('target',))}"


def show(result: dict[str, Any]) -> None:
    """As a table."""
    table = Table(
        "what",
        *(one["clocks"] for one in result["summary"]),
        title=f"pauses of the history against rows, {os.cpu_count()} cores",
    )
    for name in list(result["summary"][0])[1:] if result["summary"] else ():
        table.add_row(name, *(f"{one[name]:,}" for one in result["summary"]))
    Console().print(table)


def main() -> None:
    """Measure, and show the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pauses", type=whole, default=100)
    parser.add_argument("--partitions", type=whole, default=12)
    parser.add_argument("--per-second", type=float, default=100.0)
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    summary: list[dict[str, Any]] = []
    every: list[dict[str, Any]] = []
    failed: list[str] = []
    for clocks, shift_s in CLOCKS.items():
        with served("truth") as (folder, zookeeper, kafka):
            found, loads, failures = run(zookeeper, kafka, given, shift_s, folder)
        failed += [f"{clocks}: {one}" for one in failures]
        if len(found) >= FEWEST:
            summary.append(summed_up(clocks, found, loads))
        every += [{"clocks": clocks, **one.row} for one in found]
    asked = {"partitions": given.partitions, "per_second": given.per_second, "shift_s": SHIFT_S}
    result = {"circumstances": circumstances(), "asked": asked, "failed": failed, "summary": summary, "pauses": every}
    report(result, show, given.json)
    if failed:
        sys.exit(f"ended early: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
