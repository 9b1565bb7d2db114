"""Our `balanced` beside Kafka's `sticky` and `uniform`, in one run: `PYTHONPATH=. python benchmarks/assignors.py [--seconds 5] [--json FILE]`.

Thread CPU time in milliseconds, medians after warming up. All start from the same present assignment, Kafka's fresh
`uniform`. Kafka's times include its result objects; ours are given with the full answer (dicts and lists), as arrays, and as
the delta of a plan that is kept. `weighted`, which Kafka has nothing like, is measured by `benchmarks/weighted.py`. Inputs
are built before the clock starts, for all. Kafka's garbage is collected in other threads and not counted; ours is counted,
without what the benchmark itself holds. Needs a JDK of Java 17 or newer; Kafka's jars are fetched once.
"""

import argparse
import copy
import gc
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.circumstances import noted, told
from benchmarks.group_assignors.incremental import Plan
from benchmarks.group_assignors.layout import claims_of, layout_of
from benchmarks.group_assignors.optimum import GroupBalanced, solve_arrays
from benchmarks.result import grid, output, report, verdict
from coordinator_tasks.core.assignors.group import Group, GroupMember
from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution, ensure_jars
from coordinator_tasks.java import find_java

KAFKA_VERSION = "4.4.0"
PACKAGES = f"org.apache.kafka:kafka-group-coordinator:{KAFKA_VERSION},org.slf4j:slf4j-nop:1.7.36"
UNUSED = ",".join(f"com.fasterxml.jackson.core:jackson-{part}" for part in ("databind", "core", "annotations"))
JARS = JarSet(
    f"Kafka's assignors {KAFKA_VERSION}",
    Path(__file__).with_name(f"kafka-assignors-{KAFKA_VERSION}.sha256"),
    (Resolution(PACKAGES, UNUSED),),
)
DRIVER = Path(__file__).with_name("AssignorBench.java")
EVENTS = ("fresh", "one joins", "one leaves", "a tenth leaves")
TIMES = {"sticky": "sticky", "uniform": "uniform", "full": "ours, full", "arrays": "as arrays", "delta": "as delta"}
MEMORY_LIMIT_MB = 500
GIVE_UP_AFTER_S = 40


@dataclass(frozen=True, slots=True)
class Cell:
    topics: int
    partitions: int
    members: int
    mixed: bool = False

    @property
    def name(self) -> str:
        kind = ", mixed" if self.mixed else ""
        return f"{self.topics:,}×{self.partitions:,}/{self.members:,}{kind}"

    def subscriptions(self) -> list[list[int]]:
        """Return the topics of each member and of the joiner; a random half for mixed subscriptions."""
        rng = random.Random(42)
        every = list(range(self.topics))
        half = max(1, self.topics // 2)
        return [sorted(rng.sample(every, half)) if self.mixed else every for _ in range(self.members + 1)]

    def present(self, event: str) -> list[int]:
        everybody = range(self.members)
        return {
            "fresh": list(everybody),
            "one joins": [*everybody, self.members],
            "one leaves": [m for m in everybody if m != self.members // 2],
            "a tenth leaves": [m for m in everybody if m % 10 != 3],
        }[event]


CELLS = (
    Cell(1, 1_000, 10),
    Cell(1, 10_000, 100),
    Cell(1, 100_000, 1_000),
    Cell(1_000, 100, 1_000),
    Cell(1, 1_000_000, 1_000),
    Cell(100, 100, 100, mixed=True),
    Cell(400, 100, 400, mixed=True),
    Cell(1_000, 100, 1_000, mixed=True),
)


@dataclass(slots=True)
class Row:
    """One event; times in ms, NaN = not measured."""

    sticky: float = float("nan")
    uniform: float = float("nan")
    kafka_moves: dict[str, str] = field(default_factory=dict)
    full: float = float("nan")
    arrays: float = float("nan")
    delta: float = float("nan")
    moves: int = 0
    moves_ok: bool = True

    def missed(self, cell: Cell, event: str) -> list[str]:
        missed = []
        if self.full > self.sticky:
            missed.append("full slower than sticky")
        if self.arrays > self.sticky:
            missed.append("arrays slower than sticky")
        if event != "fresh":
            if cell.mixed and self.delta > 2 * self.uniform:
                missed.append("delta over 2 × uniform")
            if not cell.mixed and cell.topics * cell.partitions >= 10_000 and self.delta > self.uniform:
                missed.append("delta slower than uniform")
        if not self.moves_ok:
            missed.append("more moves than Kafka")
        return missed

    def line(self, cell: Cell, event: str) -> dict[str, Any]:
        """Return the row for the file: `None` = not measured, a text in place of a time that Kafka did not reach."""
        return {
            "cell": cell.name,
            "event": event,
            **{name: _noted(getattr(self, name)) for name in TIMES},
            "kafka_moves": [self.kafka_moves.get(name, "–") for name in ("sticky", "uniform")],
            "moves": self.moves,
            "missed": self.missed(cell, event),
        }


def _noted(ms: float) -> float | str | None:
    return None if math.isnan(ms) else "gave up" if math.isinf(ms) else ms


def cell_of(text: str) -> Cell:
    if text not in map(str, range(len(CELLS))):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to {len(CELLS) - 1}")
    return CELLS[int(text)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--seconds", type=float, default=5.0, help="per measurement of Kafka; a quarter of it for ours"
    )
    options.add_argument("--cell", type=cell_of, help="only this cell, counted from 0")
    options.add_argument("--json", type=output)
    options.add_argument("--memory", action="store_true", help="only what a million partitions take")
    chosen = options.parse_args()
    if chosen.memory:
        print(memory_mb())
        return
    folder = ensure_jars(JARS)
    with noted(seconds=chosen.seconds, rows=[]) as result:
        for cell in CELLS if chosen.cell is None else [chosen.cell]:
            for row in rows_of(cell, folder, chosen.seconds):
                print(row, file=sys.stderr, flush=True)
                result["rows"].append(row)
        result["memory_mb"] = measured_memory_mb()
    report(result, lambda found: print(markdown(found)), chosen.json)


def rows_of(cell: Cell, jars: Path, seconds: float) -> Iterator[dict[str, Any]]:
    rows = {event: Row() for event in EVENTS}
    prior = kafka(cell, jars, seconds, rows)
    ours(cell, prior, seconds / 4, rows)
    for event, row in rows.items():
        yield row.line(cell, event)


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each cell and event, and the memory below."""
    rows = []
    for one in result["rows"]:
        beside = (one["sticky"],) if one["event"] == "fresh" else (one["sticky"], one["uniform"])
        missed = f"**missed**: {', '.join(one['missed'])}" if one["missed"] else "–" if None in beside else "met"
        times = (figure(one[name]) for name in TIMES)
        rows.append([one["cell"], one["event"], *times, ", ".join(one["kafka_moves"]), f"{one['moves']:,}", missed])
    titles = ("topics×partitions/members", "event", *TIMES.values(), "moves: sticky, uniform", "ours", "target")
    used = result["memory_mb"]
    memory = (
        f"A million partitions of 1,000 members, a plan, a join and the full answer: {used:.0f} MB in the process "
        f"({verdict((used < MEMORY_LIMIT_MB, f'< {MEMORY_LIMIT_MB} MB'))})."
    )
    how = f"{result['seconds']:g} s for each measurement of Kafka, a quarter of it for ours"
    return f"{told(result, how)}\n\n{grid(titles, rows, ('event', 'target'))}\n\n{memory}"


def figure(ms: float | str | None) -> str:
    if ms is None or isinstance(ms, str):
        return ms or "–"
    return f"{ms:.3f}" if ms < 1 else f"{ms:.2f}" if ms < 10 else f"{ms:.0f}"


def kafka(cell: Cell, jars: Path, seconds: float, rows: Mapping[str, Row]) -> list[int]:
    """Fill in Kafka's columns; returns the present assignment, by number of the partition."""
    wanted = [" ".join(map(str, s)) if cell.mixed else "*" for s in cell.subscriptions()]
    asked = [f"{cell.topics} {cell.partitions} {cell.members} {seconds} {GIVE_UP_AFTER_S}", *wanted]
    command = [str(find_java().executable), "-Xmx4g", "--class-path", f"{jars}/*", str(DRIVER)]
    done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=True)
    prior, *answers = done.stdout.splitlines()
    for answer in answers:
        strategy, event, *figures = answer.split(",")
        row = rows[event]
        gave_up = figures == ["gave-up"]
        setattr(row, strategy, math.inf if gave_up else float(figures[0]))
        row.kafka_moves[strategy] = "–" if gave_up else figures[2]
    return [int(m) for m in prior.split()[1:]]


def ours(cell: Cell, prior: list[int], seconds: float, rows: Mapping[str, Row]) -> None:
    topics = {f"topic-{t:04d}": cell.partitions for t in range(cell.topics)}
    names = list(topics)
    every = frozenset(names)
    wanted = [frozenset(names[t] for t in s) if cell.mixed else every for s in cell.subscriptions()]
    owned: list[dict[str, list[int]]] = [{} for _ in wanted]
    for number, member in enumerate(prior):
        owned[member].setdefault(names[number // cell.partitions], []).append(number % cell.partitions)

    def group(event: str) -> Group:
        had = owned if event != "fresh" else [{}] * len(owned)
        members = {f"consumer-{m:05d}": GroupMember(wanted[m], had[m]) for m in cell.present(event)}
        return Group(topics, members)

    start = group("fresh")
    plan = Plan(Group(topics, {m: GroupMember(v.topics, owned[int(m[9:])]) for m, v in start.members.items()}))
    for event, row in rows.items():
        measure(group(event), None if event == "fresh" else plan, seconds, row)


def measure(asked: Group, plan: Plan | None, seconds: float, row: Row) -> None:
    """Measure an event; `plan` is the present plan, None before the first."""
    layout = layout_of(asked)
    claims = claims_of(asked, layout)
    row.full = clock(lambda _: GroupBalanced().assign(asked), lambda: None, seconds)
    row.arrays = clock(lambda _: solve_arrays(layout, claims), lambda: None, seconds)
    row.moves = solve_arrays(layout, claims).moves
    if plan is not None:
        present = plan.assignment().keys()
        joined = {m: v.topics for m, v in asked.members.items() if m not in present}
        left = present - asked.members.keys()
        row.delta = clock(lambda kept: kept.change(joined, left), lambda: copy.deepcopy(plan), seconds)
    row.moves_ok = all(row.moves <= int(theirs) for theirs in row.kafka_moves.values() if theirs.isdigit())


def clock(run: Callable[[Any], object], prepare: Callable[[], object], seconds: float) -> float:
    """Median thread CPU time of the later half of the runs, in ms; at least six runs."""
    gc.collect()
    gc.freeze()
    spent: list[float] = []
    end = time.monotonic() + seconds
    while len(spent) < 6 or time.monotonic() < end:
        argument = prepare()
        began = time.thread_time_ns()
        run(argument)
        spent.append((time.thread_time_ns() - began) / 1e6)
    gc.unfreeze()
    return median(spent[len(spent) // 2 :])


def measured_memory_mb() -> float:
    """Measure the memory in a separate process."""
    measured = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    return float(measured.stdout)


def memory_mb() -> float:
    """Peak of this process with the question, a kept plan, one join and the full answer of a million partitions."""
    topics = frozenset({"t"})
    members = {f"c{m:04d}": GroupMember(topics, {"t": list(range(m, 1_000_000, 1_000))}) for m in range(1_000)}
    plan = Plan(Group({"t": 1_000_000}, members))
    plan.change({"joiner": topics})
    answer = plan.assignment()
    if sum(len(listed["t"]) for listed in answer.values()) != 1_000_000:
        raise AssertionError("a partition is missing")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
