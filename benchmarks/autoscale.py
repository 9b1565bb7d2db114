"""Growth policies on a simulated fleet: lag, consumers and moves under the same load, synthetic or recorded.

    python -m benchmarks.autoscale [--json FILE] [--svg FILE]

A second is one step. Consumers share partitions; each reads at most `CAPACITY` records/s, a slow sink takes at most so much from all of
them. A new consumer reads after `START_UP_S`. A moved partition stands still for `PAUSE_S` (a hand-off); under Flink's autoscaler the whole job
stands still for `RESCALE_S` at each change of parallelism, as its rescaling restarts the job.

- ours: `core.fleet.growth`, a look each minute, as the product runs it
- KEDA: ceil(lag / lagThreshold), a look each 15 s, with the stabilisation of the horizontal pod autoscaler: up at once and at most
  doubled, down to the largest number of the last 300 s
- Flink: target utilisation 0.7 within 0.4 to 1.0, the true processing rate from busy time, catch-up 30 min, stabilisation 5 min, a look
  each minute over a window of 3 min, scale-down factor at most 0.6, and no undoing (its detection of ineffective scaling is off by default)
"""

import json
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil, inf, pi, sin
from pathlib import Path
from typing import Any

from benchmarks.circumstances import circumstances, told
from benchmarks.plot import Line, Panel, panels
from benchmarks.result import grid, options, output, report
from coordinator_tasks.core.fleet.growth import GrowthKind, GrowthObservation, Limits, Load, Memory, decide

PARTITIONS, CAPACITY = 24, 1_000.0
START_UP_S, PAUSE_S, RESCALE_S = 60, 0.1, 45
LEAST, MOST, BEGIN = 1, 12, 3
HOURS = 6
MEAN = 3_000.0
"""Records/s of the recorded load, on average."""
RECORDED = Path(__file__).with_name("results") / "recorded_load.json"
"""The rates of each partition in a working machine's topic: a record for every ten context switches, keyed by process."""
BIN_S = 180
"""Of the plots: the worst lag, the most consumers and the moves so far of so many seconds are one point."""
LAG_THRESHOLD = 10_000
"""KEDA's records of lag per consumer; its default of 10 is too small for such a load."""


@dataclass
class Fleet:
    """The simulated fleet. `owners`: partition → consumer; `ready`: consumer → second from which it reads."""

    sink: float = inf
    now: int = 0
    lag: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    owners: list[int] = field(default_factory=list)
    ready: dict[int, int] = field(default_factory=dict)
    still: dict[int, float] = field(default_factory=dict)
    pins: dict[int, int] = field(default_factory=dict)
    moves: int = 0
    changes: int = 0
    read: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    stopped_until: int = -1

    def __post_init__(self) -> None:
        self.ready = dict.fromkeys(range(BEGIN), 0)
        self.owners = [p % BEGIN for p in range(PARTITIONS)]

    @property
    def reading(self) -> list[int]:
        return [one for one, at in self.ready.items() if at <= self.now]

    def step(self, rates: list[float]) -> None:
        self._take_over()
        budget = dict.fromkeys(self.reading, CAPACITY)
        sink = self.sink if self.now >= self.stopped_until else 0.0
        self.read = [0.0] * PARTITIONS
        for p in range(PARTITIONS):
            self.lag[p] += rates[p]
        mine: dict[int, list[int]] = {}
        for p, owner in enumerate(self.owners):
            mine.setdefault(owner, []).append(p)
        taken: dict[int, float] = {}
        for owner, held in mine.items():
            left = budget.get(owner, 0.0)
            for index, p in enumerate(sorted(held, key=lambda one: self.lag[one])):
                share = left / (len(held) - index)
                stood = min(1.0, self.still.pop(p, 0.0))
                taken[p] = min(self.lag[p], share * (1 - stood))
                left -= taken[p]
        total = sum(taken.values())
        factor = min(1.0, sink / total) if total else 1.0
        for p, amount in taken.items():
            self.read[p] = amount * factor
            self.lag[p] -= self.read[p]
        self.now += 1

    def resize(self, count: int, leaves: tuple[int, ...] = ()) -> None:
        """Resize to `count` consumers; leaving consumers are drained at once."""
        count = max(LEAST, min(MOST, count))
        while len(self.ready) > count:
            one = leaves[0] if leaves else max(self.ready)
            leaves = leaves[1:]
            del self.ready[one]
        while len(self.ready) < count:
            number = next(n for n in range(MOST + 1) if n not in self.ready)
            self.ready[number] = self.now + START_UP_S
        self.changes += 1

    def _take_over(self) -> None:
        """Balance by number among reading consumers, with as few moves as possible."""
        live = sorted(self.reading)
        if not live:
            return
        counts = {one: self.owners.count(one) for one in live}
        self.pins = {p: one for p, one in self.pins.items() if one in counts}
        for p, owner in enumerate(self.owners):
            if owner not in counts:
                self.move(p, min(counts, key=lambda one: (counts[one], one)))
                counts = {one: self.owners.count(one) for one in live}
        while True:
            free = {
                one: [p for p, owner in enumerate(self.owners) if owner == one and p not in self.pins] for one in live
            }
            givers = [one for one in live if free[one]]
            giver = max(givers, key=lambda one: (counts[one], -one), default=live[0])
            taker = min(counts, key=lambda one: (counts[one], one))
            if counts[giver] - counts[taker] <= 1:
                return
            self.move(free[giver][0], taker)
            counts[giver] -= 1
            counts[taker] += 1

    def move(self, partition: int, taker: int) -> None:
        """Move a partition; a restarting job has counted all its partitions already."""
        self.owners[partition] = taker
        self.still[partition] = PAUSE_S
        self.moves += self.now > self.stopped_until


class Ours:
    """The product's policy."""

    every_s = 60

    def __init__(self) -> None:
        self.limits = Limits(LEAST, MOST, start_up_s=START_UP_S, act=True)
        self.memory, self.window = Memory(), deque[tuple[list[float], list[float], list[float]]](maxlen=20)

    def look(self, fleet: Fleet, rates: list[float]) -> None:
        """Measure each second; decide each minute."""
        self.window.append((rates, list(fleet.read), list(fleet.lag)))
        if fleet.now % self.every_s or len(self.window) < 20:
            return
        mean = [[sum(row[n][p] for row in self.window) / 20 for p in range(PARTITIONS)] for n in (0, 1)]
        loads = tuple(
            Load("t", p, str(fleet.owners[p]), mean[0][p], fleet.lag[p], mean[1][p]) for p in range(PARTITIONS)
        )
        busy = {}
        for one in fleet.reading:
            held = [p for p in range(PARTITIONS) if fleet.owners[p] == one]
            if held and all(sum(row[2][p] for p in held) > sum(row[1][p] for p in held) for row in self.window):
                busy[str(one)] = sum(mean[1][p] for p in held)
        unsure = "" if len(fleet.reading) == len(fleet.ready) else "consumers start"
        seen = GrowthObservation(float(fleet.now), tuple(map(str, fleet.ready)), loads, busy, unsure)
        decision, self.memory = decide(self.limits, seen, self.memory)
        if decision.kind in (GrowthKind.GROW, GrowthKind.SHRINK, GrowthKind.UNDO):
            fleet.pins = {}
            fleet.resize(decision.desired, tuple(map(int, decision.leaves)))
        for move in decision.moves:
            fleet.pins[move.partition] = int(move.taker)
            fleet.move(move.partition, int(move.taker))


class Keda:
    """The formula of KEDA's Kafka scaler with the horizontal pod autoscaler's stabilisation."""

    every_s = 15

    def __init__(self) -> None:
        self.wanted = deque[int](maxlen=300 // self.every_s)

    def look(self, fleet: Fleet, _rates: list[float]) -> None:
        if fleet.now % self.every_s:
            return
        wanted = max(LEAST, min(MOST, PARTITIONS, ceil(sum(fleet.lag) / LAG_THRESHOLD)))
        self.wanted.append(wanted)
        now = len(fleet.ready)
        wanted = min(wanted, max(2 * now, now + 4)) if wanted > now else max(self.wanted)
        if wanted != now:
            fleet.resize(wanted)


class Flink:
    """Flink's autoscaler for a source of partitions."""

    every_s = 60

    def __init__(self) -> None:
        self.window = deque[float](maxlen=180)
        self.changed_at = -10_000

    def look(self, fleet: Fleet, rates: list[float]) -> None:
        self.window.append(sum(rates))
        now = len(fleet.ready)
        if fleet.now % self.every_s or fleet.now - self.changed_at < 300 or len(self.window) < 180:
            return
        rate = sum(self.window) / len(self.window)
        lag = sum(fleet.lag)
        # The true rate: an instance's reads while busy; under back pressure it waits, and counts as less busy.
        capacity = CAPACITY * now
        if rate + lag / 1800 <= capacity <= rate / 0.4:
            return
        wanted = ceil((rate / 0.7 + lag / 1800) / CAPACITY)
        wanted = max(wanted, ceil(now * 0.4)) if wanted < now else wanted
        wanted = max(LEAST, min(MOST, wanted))
        if wanted != now:
            self.changed_at = fleet.now
            self.window.clear()
            fleet.resize(wanted)
            fleet.ready = {one: min(at, fleet.now + RESCALE_S) for one, at in fleet.ready.items()}
            fleet.stopped_until = fleet.now + RESCALE_S
            fleet.moves += PARTITIONS


POLICIES: Mapping[str, Callable[[], Any]] = {"ours": Ours, "KEDA": Keda, "Flink": Flink}
Rates = Callable[[int, random.Random], list[float]]


def _even(total: float) -> list[float]:
    return [total / PARTITIONS] * PARTITIONS


def _hot(now: int) -> list[float]:
    """Return 1,400 records/s of 3,000 in one partition: beyond a single consumer."""
    hot = 1_400.0 if 3_600 <= now < 9_000 else 67.0
    return [hot, *[1_600 / (PARTITIONS - 1)] * (PARTITIONS - 1)]


def _uneven(now: int) -> list[float]:
    """Return 2,100 records/s, mostly in three partitions of one consumer: a case for moves, not growth."""
    heavy = 480.0 if now >= 1_800 else 87.5
    return [heavy if p in (0, 3, 6) else (2_100 - 3 * heavy) / (PARTITIONS - 3) for p in range(PARTITIONS)]


def noisy(now: int, rng: random.Random) -> list[float]:
    """Return 2,500 records/s on average; each minute between a third and twice the average, and again each second."""
    minute = random.Random(now // 60).uniform(0.35, 1.65)
    return _even(2_500 * minute * rng.uniform(0.7, 1.3))


@cache
def _recording() -> tuple[float, list[list[float]]]:
    """Seconds of a row, and rows of rates, scaled to the mean. Partitions that are too few here are added up."""
    found = json.loads(RECORDED.read_text())
    rows = [[float(sum(row[p::PARTITIONS])) for p in range(PARTITIONS)] for row in found["rates"]]
    factor = MEAN * len(rows) / sum(map(sum, rows))
    return found["every_s"], [[factor * rate for rate in row] for row in rows]


def _recorded(now: int) -> list[float]:
    every_s, rows = _recording()
    return rows[int(now / every_s) % len(rows)]


LOADS: Mapping[str, Rates] = {
    # From 800 to 7,200 records/s and back in three hours.
    "diurnal": lambda now, _: _even(4_000 - 3_200 * sin(2 * pi * (now / 10_800 + 0.25))),
    # 1,500 records/s, and 8,000 for ten minutes of each second hour.
    "spike": lambda now, _: _even(8_000 if 3_600 <= now % 7_200 < 4_200 else 1_500),
    "slow sink": lambda now, _: _even(4_500 if 3_600 <= now < 9_000 else 1_500),
    "one hot partition": lambda now, _: _hot(now),
    "uneven partitions": lambda now, _: _uneven(now),
    "noisy rates": noisy,
    "recorded": lambda now, _: _recorded(now),
}
SINKS = {"slow sink": 3_000.0}
"""Records/s that a sink takes; the others have no limit."""


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a policy under a load, second by second. `lags`: in seconds of the present rate; `moves`: so far."""

    load: str
    policy: str
    lags: list[float]
    sizes: list[int]
    moves: list[int]
    changes: int

    @property
    def cell(self) -> dict[str, Any]:
        ordered = sorted(self.lags)
        return {
            "load": self.load,
            "policy": self.policy,
            "lag_s_median": round(ordered[len(ordered) // 2], 1),
            "lag_s_p99": round(ordered[int(len(ordered) * 0.99)], 1),
            "lag_s_worst": round(ordered[-1], 1),
            "consumers_mean": round(sum(self.sizes) / len(self.sizes), 2),
            "consumers_most": max(self.sizes),
            "changes": self.changes,
            "moves": self.moves[-1],
        }


def run(load: str, policy: str, hours: float = HOURS, seed: int = 1) -> Course:
    """Run a policy under a load."""
    fleet, scaler, rng = Fleet(sink=SINKS.get(load, inf)), POLICIES[policy](), random.Random(seed)
    course = Course(load, policy, [], [], [], 0)
    for now in range(int(hours * 3600)):
        rates = LOADS[load](now, rng)
        fleet.step(rates)
        scaler.look(fleet, rates)
        course.lags.append(sum(fleet.lag) / max(1.0, sum(rates)))
        course.sizes.append(len(fleet.ready))
        course.moves.append(fleet.moves)
    return replace(course, changes=fleet.changes)


def plot(courses: Sequence[Course]) -> str:
    """A row of three charts for each load: lag, consumers and moves over time, a line for each policy."""
    rows = []
    for load in dict.fromkeys(one.load for one in courses):
        mine = [one for one in courses if one.load == load]
        lags, sizes, moves = (
            [Line(one.policy, _binned(values(one))) for one in mine]
            for values in (lambda one: one.lags, lambda one: one.sizes, lambda one: one.moves)
        )
        rows.append((Panel(f"{load}: lag, s", lags), Panel("consumers", sizes), Panel("moves so far", moves)))
    return panels(rows, "hours")


def _binned(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Hours and the largest value of each bin."""
    return tuple((at / 3600, max(values[at : at + BIN_S])) for at in range(0, len(values), BIN_S))


def markdown(result: Mapping[str, Any]) -> str:
    """A row for each load and policy."""
    titles = ("load", "policy", "lag, median s", "p99", "worst", "consumers on average", "at most", "changes", "moves")
    rows = [[str(value) for value in one.values()] for one in result["cells"]]
    hours = f"{result['constants']['hours']} simulated hours each"
    return f"{told(result, hours)}\n\n{grid(titles, rows, ('policy',))}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--svg", type=output)
    given = parser.parse_args()
    courses = [run(load, policy) for load in LOADS for policy in POLICIES]
    if given.svg is not None:
        given.svg.write_text(plot(courses))
    constants = {"partitions": PARTITIONS, "capacity": CAPACITY, "start_up_s": START_UP_S, "rescale_s": RESCALE_S}
    result = {
        **circumstances(),
        "constants": {**constants, "most": MOST, "lag_threshold": LAG_THRESHOLD, "hours": HOURS},
    }
    report({**result, "cells": [one.cell for one in courses]}, markdown, given.json)


if __name__ == "__main__":
    main()
