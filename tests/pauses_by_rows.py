"""Pauses of the history beside the rows of the sinks, and consumers with a wrong clock.

A row has the producer's time of its record and its consumer's time of the write. It is independent of ZooKeeper, of the
agent and of its status, the sources of the history's pauses.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.circumstances import PROJECT
from coordinator_tasks.core.model import Record
from coordinator_tasks.devstack.demo import stalls
from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.devstack.demo.stalls import MeasuredStall
from coordinator_tasks.devstack.embedded.processes import marked_environment
from coordinator_tasks.wiring import Settings

SHIFT_S, LEAVE_S = 420.0, 120.0
TARGET_MS = 10.0
"""The median of the error, on one host."""
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
        if self.process.wait(LEAVE_S):
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
