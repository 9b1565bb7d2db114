"""How long from a membership change to the plan in ZooKeeper and to Stable: under Airflow, and with the plain loop.

    python -m benchmarks.rebalance [--rounds 10] [--json FILE]

Two light consumers without Spark stay; in each round a third joins and leaves. Times are from ZooKeeper: the making of
the registration, the leaver's own draining mark, and the history records. Everything is on this machine.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.circumstances import PROJECT, in_rounds, noted, told
from benchmarks.plain_loop import looping
from benchmarks.result import grid, options, report, verdict, whole
from benchmarks.servers import airflow_for, served, until
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Record, State
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, store, topics
from coordinator_tasks.wiring import Settings, open_coordinator

TOPIC, PARTITIONS = "orders", 12
STAYING = ("stays-1", "stays-2")
PAUSE_S = 2.0
SETTLE_S = 1.0
BEYOND_SETTLE_S = {"to_plan_s": ("plan", 2.0), "to_stable_s": ("Stable", 6.0)}
"""Targets for the medians under Airflow."""


class Site:
    """A cluster on running servers, with light consumers in separate processes."""

    def __init__(self, name: str, zookeeper: str, kafka: str, folder: Path) -> None:
        client = {"bootstrap.servers": kafka, "log_level": "0"}
        self.settings = Settings(name, zookeeper, client, policy=Policy(settle_s=SETTLE_S), answer_timeout_s=30.0)
        self.folder = folder
        self.topic = f"{TOPIC}-{name}"
        ConfluentKafkaAdmin(client).create_topic(self.topic, PARTITIONS)

    def consumer(self, consumer: str) -> ManagedProcess:
        """A light consumer, not started yet."""
        command = (
            *(sys.executable, "-m", "spark_apps.plain", "--consumer", consumer, "--cluster", self.settings.cluster),
            *("--zookeeper", self.settings.zookeeper, "--kafka", self.settings.kafka["bootstrap.servers"]),
            *("--sink", os.devnull),
        )
        log = self.folder / f"{self.settings.cluster}-{consumer}.log"
        return ManagedProcess(ProcessSpec(consumer, command, log, cwd=PROJECT, stop_timeout_s=60.0), ready=lambda: True)

    def run(self, c: Coordinator, rounds: int) -> dict[str, Any]:
        """Two stay; a third joins and leaves, again and again. Return the summary."""
        self.c, self.found = c, list[dict[str, Any]]()
        topics.add_topic(c, self.topic, f"group-{self.topic}", actor=Actor("command", "benchmark"))
        with ExitStack() as staying:
            for consumer in STAYING:
                staying.enter_context(self.consumer(consumer))
            self.stable(0.0, set(STAYING))
            for number in range(rounds):
                self.round(f"comes-{number}")  # an id that came and went so often would be held back as flapping
        return summary(self.found)

    def round(self, coming: str) -> None:
        member, directive = self.c.paths.member(coming), self.c.paths.directive(coming)
        comes = self.consumer(coming)
        comes.spawn()
        try:
            until(lambda: self.changed_at(member) > 0, f"the registration of {coming}")
            joined_at = self.changed_at(member)
            self.note("join", joined_at, self.stable(joined_at, {*STAYING, coming}))
            time.sleep(PAUSE_S)
            asked_at = time.time()
            comes.terminate()
            until(lambda: self.changed_at(directive, modified=True) > asked_at - 0.1, f"the mark of {coming}")
            marked_at = self.changed_at(directive, modified=True)
            self.note("leave", marked_at, self.stable(marked_at, set(STAYING)))
        finally:
            comes.stop()
        until(lambda: self.changed_at(member) == 0, f"the end of {coming}")
        time.sleep(PAUSE_S)

    def changed_at(self, path: str, *, modified: bool = False) -> float:
        """Return when ZooKeeper made (or last changed) the node; 0 if absent."""
        found = self.c.zk.find(path)
        if found is None:
            return 0.0
        return found.stat.modified_at if modified else found.stat.created_at

    def note(self, kind: str, changed_at: float, records: Sequence[Record]) -> None:
        times = {"to_plan_s": min(r.at for r in records if r.moves), "to_stable_s": records[-1].at}
        self.found.append({"kind": kind, **{name: round(at - changed_at, 3) for name, at in times.items()}})

    def stable(self, after: float, owners: set[str]) -> list[Record]:
        """Wait until exactly these owners have everything and the topic is Stable; return the records since the change."""
        until(lambda: self.is_stable(after, owners), f"Stable with {sorted(owners)}")
        return sorted((r for r in history.records(self.c, self.topic) if r.at > after), key=lambda r: r.sequence)

    def is_stable(self, after: float, owners: set[str]) -> bool:
        view = store.load(self.c.zk, self.c.paths, self.topic).view
        if view.state is None or view.node is None or view.state.state is not State.STABLE:
            return False
        return view.state.since_at > after and set(view.node.assignments.values()) == owners


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Kind of change → median and maximum of each time."""
    return {
        kind: {
            name: {"median": round(median(found), 3), "max": max(found)}
            for name in BEYOND_SETTLE_S
            if (found := [one[name] for one in rounds if one["kind"] == kind])
        }
        for kind in ("join", "leave")
    }


def measure(rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    with served("benchmark") as (folder, zookeeper, kafka):
        site = Site("loop", zookeeper, kafka, folder / "loop")
        with open_coordinator(site.settings) as c, open_coordinator(site.settings) as own, looping(own):
            result["loop"] = site.run(c, rounds)
        site = Site("airflow", zookeeper, kafka, folder / "airflow")
        site.folder.mkdir()
        airflow = airflow_for(site.folder, ["airflow"], zookeeper, kafka, {"policy": {"settle_s": SETTLE_S}})
        with open_coordinator(site.settings) as c, airflow:
            result["airflow"] = site.run(c, rounds)
    return result


def markdown(result: Mapping[str, Any]) -> str:
    """Return seconds to the plan and to Stable, for each runner of the transitions."""
    rows = []
    for mode, who in (("loop", "plain loop"), ("airflow", "Airflow")):
        for kind, both in result.get(mode, {}).items():
            found = [f"{both[name][of]:.2f}" for name in BEYOND_SETTLE_S for of in ("median", "max")]
            limits = {name: (what, result["settle_s"] + s) for name, (what, s) in BEYOND_SETTLE_S.items()}
            targets = [
                (both[name]["median"] <= limit, f"{what} ≤ {limit:g} s") for name, (what, limit) in limits.items()
            ]
            rows.append([f"{who}, {kind}", *found, verdict(*(targets if mode == "airflow" else []))])
    titles = ("", *(f"{what} {of}" for what, _ in BEYOND_SETTLE_S.values() for of in ("median", "max")), "target")
    how = (in_rounds(result["rounds"]), f"settle time {result['settle_s']:g} s")
    return f"{told(result, *how)}\n\n{grid(titles, rows, ('target',))}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=whole, default=10)
    given = parser.parse_args()
    with noted(settle_s=SETTLE_S, rounds=given.rounds) as result:
        result.update(measure(given.rounds))
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
