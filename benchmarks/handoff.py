"""Stalls of every moved and unmoved partition when consumers join, leave, restart and crash: Kafka's protocols, ours.

    python -m benchmarks.handoff [--partitions 12,48,192] [--rounds 5] [--kinds join,leave,rolling,crash]
        [--only eager,cooperative-quick,java-kip848,ours,spark,...] [--airflow] [--json build/handoff.json]

All plain clients run at once on one broker, each protocol with a separate topic and group, so that a disturbance
affects all of them; Java clients and Spark applications take turns with them. Before every change of membership is a
wait of random length, because heartbeats are periodic. After the change comes an undisturbed window of the same length
with the same clients, whose longest stall is subtracted, partition by partition. ZooKeeper forces its writes to the
disk.

- join: a further consumer comes; leave: it leaves cleanly; rolling: the staying consumers restart, one after the other;
  crash: kill -9 of the further consumer. Our consumers are watched by their launcher, which reports the death; silent
  (`--kinds silent`): no report; gone (`--kinds gone`): no answers and no refusals.
- A stall: the longest time in which a partition had an unprocessed record and processed none.

With `--airflow`, Airflow's tasks run our transitions instead of the plain loop. `python -m benchmarks.rebalance`
measures their addition to the decision, not part of a stall.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.circumstances import circumstances
from benchmarks.handoff_clients import fork_server
from benchmarks.handoff_lanes import (
    BROKER,
    CLIENTS,
    EVERY,
    FENCED,
    JAVA,
    JAVA_CLIENTS,
    OF_THREE,
    OPTIONAL,
    OURS,
    SESSIONS_S,
    SPARK,
    ClientLane,
    JavaLane,
    Lane,
    OurLane,
    SparkLane,
    coordinator_settings,
    create_topic,
)
from benchmarks.handoff_report import in_full
from benchmarks.handoff_summary import line_of
from benchmarks.handoff_traffic import TrafficOrder, produce
from benchmarks.result import options, report, whole, wholes
from benchmarks.servers import airflow_for
from benchmarks.stalls import Flow, Window, course, fewest_moves, impact
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper

ACTS: Mapping[str, Callable[[Lane, str], Any]] = {
    "join": lambda lane, consumer: lane.join(consumer),
    "crash": lambda lane, consumer: lane.crash(consumer),
    "silent": lambda lane, consumer: lane.die(consumer),
    "gone": lambda lane, consumer: lane.vanish(consumer),
    "leave": lambda lane, consumer: lane.leave(consumer),
    "rolling": lambda lane, consumer: lane.restart(consumer),
}
GOING = ("crash", "silent", "gone", "leave")
"""Ends of a further consumer."""
KINDS = ("join", "leave", "rolling", "crash")
FURTHER = ("silent", "gone")
"""Only on request: they take long."""
STAYING = {True: ("a", "b"), False: ("a", "b", "c")}  # Spark applications are heavy for a small machine
COMING = "x"
JVM = ("-XX:+UseSerialGC",)  # a broker that lives for an hour is worth compiling well
FORCED = ("-Dzookeeper.forceSync=yes",)
WAIT_S = 5.0
"""The longest wait before an event: the longest period of a heartbeat."""
LOOK_S, AFTER_S, CALM_S, LIMIT_S = 0.2, 1.0, 2.0, 90.0
APART_S = 1.1  # consumers that start at once would send simultaneous heartbeats, unlike in production


@dataclass(frozen=True, slots=True)
class Event:
    """One change of membership: `steps` are, by lane, the live processes after each of its parts."""

    kind: str
    window: Window
    control: Window
    steps: dict[str, list[list[str]]]
    took_s: dict[str, float]


@dataclass
class Fleet:
    """Lanes with the same events at the same time, beside one flow of records."""

    lanes: Sequence[Lane]
    ticks: Path
    traffic: BaseProcess
    chance: Random
    events: list[Event] = field(default_factory=list)

    @property
    def staying(self) -> tuple[str, ...]:
        return STAYING[any(isinstance(lane, SparkLane) for lane in self.lanes)]

    def run(self, kinds: Collection[str]) -> None:
        self._prepare(*self.staying)
        for consumer in self.staying:
            self._all("join", consumer)
            time.sleep(APART_S)
        self._settle()
        going = [kind for kind in GOING if kind in kinds]
        for number, kind in enumerate(going or ["join"] * ("join" in kinds)):
            consumer = f"{COMING}{number}"
            self._prepare(consumer)
            if number == 0 and "join" in kinds:
                self._event("join", consumer)
            else:
                self._all("join", consumer)
                self._settle()
            if kind in GOING:
                self._event(kind, consumer)
        for consumer in self.staying if "rolling" in kinds else ():
            self._prepare(consumer)
            self._event("rolling", consumer)

    def _prepare(self, *consumers: str) -> None:
        for lane in self.lanes:
            for consumer in consumers:
                lane.prepare(consumer)
            lane.wait_prepared()
        time.sleep(CALM_S)

    def _all(self, kind: str, consumer: str) -> None:
        for lane in self.lanes:
            ACTS[kind](lane, consumer)

    def _event(self, kind: str, consumer: str) -> None:
        time.sleep(AFTER_S + self.chance.uniform(0, WAIT_S))
        began_at = time.monotonic()
        self._all(kind, consumer)
        steps = {lane.name: [lane.keys()] for lane in self.lanes}
        took_s = self._settle()
        for lane in self.lanes:
            if steps[lane.name] != [lane.keys()]:  # it has left, and come back
                steps[lane.name].append(lane.keys())
        time.sleep(AFTER_S)
        window = Window(began_at, time.monotonic())
        until = window.to_at + AFTER_S / 2 + window.to_at - began_at
        while time.monotonic() < until:
            self._look()
        control = Window(window.to_at + AFTER_S / 2, until)
        self.events.append(Event(kind, window, control, steps, took_s))

    def _settle(self) -> dict[str, float]:
        """Wait for all lanes; return the seconds of each."""
        began_s, found = time.monotonic(), dict[str, float]()
        while len(found) < len(self.lanes):
            self._look()
            now = time.monotonic()
            found |= {one.name: now - began_s for one in self.lanes if one.name not in found and one.is_settled()}
            if now - began_s > LIMIT_S:
                late = {lane.name: str(lane.folder) for lane in self.lanes if lane.name not in found}
                sys.exit(f"not settled within {LIMIT_S:g} s: {late}; the machine may be too busy to measure on")
        return found

    def _look(self) -> None:
        time.sleep(LOOK_S)
        for lane in self.lanes:
            lane.follow()
            if problem := lane.problem():
                sys.exit(problem)
        if self.traffic.exitcode:
            sys.exit("the traffic has ended early; its last words are above")

    def drain(self) -> None:
        """Wait until all produced records are processed; records that never come are lost."""
        self.traffic.terminate()
        self.traffic.join(LIMIT_S)
        for lane in self.lanes:
            lane.bury()
        flow = flow_of(self.ticks)
        deadline = time.monotonic() + LIMIT_S / 3
        while time.monotonic() < deadline and any(
            np.min(lane.position) < flow.base + len(flow.ticks) for lane in self.lanes
        ):
            self._look()
        time.sleep(AFTER_S)  # all is committed: Kafka refuses some commits of members that leave at once
        for consumer in list(self.lanes[0].lives):
            self._all("leave", consumer)
        while time.monotonic() < deadline + LIMIT_S and not all(one.ended for lane in self.lanes for one in lane.all):
            time.sleep(LOOK_S)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the effect of each event on each lane."""
        flow = flow_of(self.ticks)
        for lane in self.lanes:
            courses = {partition: course(flow, spans) for partition, spans in lane.spans().items()}
            since = -inf
            for event in self.events:
                until = inf if event is self.events[-1] else event.control.to_at
                owners = {partition: one.owner_at(event.window.from_at) for partition, one in courses.items()}
                fewest = fewest_moves(owners, *event.steps[lane.name])
                found = impact(courses, event.window, event.control, Window(since, until), fewest)
                yield line_of(event.kind, lane.name, found, event.took_s[lane.name])
                since = until


def flow_of(ticks: Path) -> Flow:
    found = np.fromfile(ticks, "<f8").tolist()
    return Flow(int(found[0]), found[1:]) if found else Flow(0, [])


@dataclass
class Bench:
    """Running servers, and the measurements on them."""

    zookeeper: str
    ensemble: str
    kafka: str
    folder: Path
    per_second: float
    batch_interval_s: float
    airflow: bool
    chance: Random = field(default_factory=Random)
    count: int = 0

    def __post_init__(self) -> None:
        self.forks = fork_server()

    def lanes(self, names: Sequence[str], partitions: int) -> list[Lane]:
        """Return new lanes, on the topics and groups of earlier rounds."""
        self.count += 1
        found: list[Lane] = []
        for name in names:
            folder = self.folder / f"{self.count}-{name}"
            given = (name, self.kafka, f"{name}-{partitions}", partitions, folder, self.per_second)
            if name in (OURS, *OPTIONAL):
                found.append(OurLane(*given, **self._ours(name)))
            elif name == SPARK:
                found.append(SparkLane(*given, **self._ours(name), batch_interval_s=self.batch_interval_s))
            elif name in JAVA_CLIENTS:
                found.append(JavaLane(*given))
            else:
                found.append(ClientLane(*given, forks=self.forks))
        return found

    def _ours(self, name: str) -> dict[str, Any]:
        zookeeper = self.ensemble if name == OF_THREE else self.zookeeper
        return {"zookeeper": zookeeper, "forks": self.forks, "looping": not self.airflow}

    def round(self, names: Sequence[str], partitions: int, kinds: Collection[str]) -> list[dict[str, Any]]:
        """Run all events once, with all of these lanes at the same time."""
        lanes = self.lanes(names, partitions)
        ticks = self.folder / f"{self.count}.ticks"
        ticks.touch()
        order = TrafficOrder(self.kafka, tuple(lane.topic for lane in lanes), partitions, self.per_second, ticks)
        fleet = Fleet(lanes, ticks, self.forks.Process(target=produce, args=(order,), daemon=True), self.chance)
        fleet.traffic.start()
        try:
            fleet.run(kinds)
            fleet.drain()
        finally:
            fleet.traffic.kill()
            for lane in lanes:
                lane.close()
        return [{"partitions": partitions, **line} for line in fleet.lines()]


def _keep(file: Path | None, result: Mapping[str, Any], ended: str) -> None:
    """Store the measurements so far, for an interrupted call; `ended`: place and reason, absent in a complete result."""
    if file is not None:
        report({"load_after": os.getloadavg()[0], "took_s": 0, **result, "ended": ended}, lambda _: None, file)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return all findings, with the circumstances, as written by `--json`."""
    result: dict[str, Any] = {
        **circumstances(),
        "rounds": given.rounds,
        "per_second": given.per_second,
        "batch_interval_s": given.batch_interval,
        "sessions_s": SESSIONS_S,
        "airflow": given.airflow,
        "load_before": os.getloadavg()[0],
        "runs": [],
    }
    began_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="handoff-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(folder / "zookeeper", java_options=FORCED)).connect_string
        three = EmbeddedEnsemble(folder / "ensemble", java_options=FORCED) if OF_THREE in given.only else None
        ensemble = stack.enter_context(three).connect_string if three is not None else ""
        kafka = stack.enter_context(
            EmbeddedKafka(folder / "kafka", settings=BROKER, java_options=JVM)
        ).bootstrap_servers
        bench = Bench(zookeeper, ensemble, kafka, folder, given.per_second, given.batch_interval, given.airflow)
        if given.airflow:
            clusters = [f"{name}-{n}" for name in (OURS, FENCED, SPARK) if name in given.only for n in given.partitions]
            own = coordinator_settings(fenced=FENCED in given.only)
            stack.enter_context(airflow_for(folder / "airflow", clusters, zookeeper, kafka, own))
        for partitions in given.partitions:
            for name in (*EVERY, *OPTIONAL):
                if name in given.only:
                    create_topic(kafka, f"{name}-{partitions}", partitions)
            measure_rounds(bench, given, partitions, result)
    result["load_after"] = os.getloadavg()[0]
    result["took_s"] = round(time.monotonic() - began_s)
    return result


def measure_rounds(bench: Bench, given: argparse.Namespace, partitions: int, result: dict[str, Any]) -> None:
    """Add the runs of all rounds to the result, and store it after each round.

    A round's failure is kept beside earlier rounds.
    """
    began_s = time.monotonic()
    kinds_of_clients = ((*CLIENTS, OURS, *OPTIONAL), JAVA, (SPARK,))
    turns = [names for some in kinds_of_clients if (names := [one for one in some if one in given.only])]
    for number in range(given.rounds):
        for names in turns if number % 2 == 0 else turns[::-1]:
            here = f"{partitions} partitions, round {number + 1}, {', '.join(names)}"
            try:
                found = bench.round(names, partitions, given.kinds)
            except BaseException as problem:
                _keep(given.json, result, f"{here}: {problem}" if str(problem) else f"{here}: {type(problem).__name__}")
                raise
            result["runs"] += [{"round": number, **line} for line in found]
            _keep(given.json, result, f"after {here}")
            print(f"{time.monotonic() - began_s:.0f} s: {here}", file=sys.stderr)


def _names(allowed: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        found = tuple(one for one in text.split(",") if one)
        unknown = [one for one in found if one not in allowed]
        if unknown or not found:
            raise argparse.ArgumentTypeError(f"{text!r}: name some of {','.join(allowed)}, separated by commas")
        return found

    return read


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--partitions", type=wholes, default=(12, 48, 192))
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--kinds", type=_names((*KINDS, *FURTHER)), default=KINDS)
    parser.add_argument("--only", type=_names((*EVERY, *OPTIONAL)), default=EVERY)
    parser.add_argument("--per-second", type=float, default=20.0, help="records to each partition")
    parser.add_argument("--batch-interval", type=float, default=0.5, help="seconds between a Spark consumer's batches")
    parser.add_argument(
        "--airflow", action="store_true", help="Airflow's tasks run our transitions, not the plain loop"
    )
    asked = parser.parse_args()
    if asked.airflow and FENCED in asked.only and len(asked.only) > 1:
        parser.error(f"Airflow has one fence for all clusters of its connection: measure {FENCED} in a call of its own")
    if asked.airflow and OF_THREE in asked.only:
        parser.error(
            f"Airflow looks at the one ZooKeeper server, so nobody would decide: leave {OF_THREE} out with --airflow"
        )
    if asked.json is not None and asked.json.exists():
        parser.error(f"{asked.json} has a result already; name another file, or remove it")
    result = measure(asked)
    report(result, in_full, asked.json)


if __name__ == "__main__":
    main()
