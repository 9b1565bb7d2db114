"""Airflow stopped, killed, started again, emptied and run anew in the middle of rebalances: no consumer notices any of it.

Consumers and the checks are those of the other cases; the transitions are run by Airflow's tasks alone. Each case joins a
consumer or lets one leave, waits until the plan is written, and does to Airflow what its name says.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from coordinator_tasks.core.model import Actor, Record, State
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow, Service
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable
from coordinator_tasks.service.nodes import history, topics
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import clear_tasks, wait_for_run
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.deaths import own_servers
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.outage import longest_pause_s
from tests.faults.servers import Servers

AIRFLOW = "airflow"
THIRD = "d"
PARTITIONS = 6
FEWEST = PARTITIONS // 3
"""What a third consumer is given, and gives back, where all are to have as much."""
PROJECT = Path(__file__).resolve().parents[2]
RUN_LIMIT_S = 120.0
AWAY_S = 3.0
PAUSE_LIMIT_S = 10.0
STEPS = ["plan", "confirm_closed", "start", "confirm_started", "settle"]
"""The tasks that a person may clear at any time."""
HANDED_OVER = ((State.STABLE, State.CLOSING), (State.CLOSING, State.STARTING), (State.STARTING, State.STABLE))
LEFT_BEFORE = ((State.STABLE, State.STARTING), (State.STARTING, State.STABLE))
"""Nothing was planned until the leave's `close_timeout_s` was over: there is nobody to hand over any more."""


class Orchestrator:
    """An Airflow whose home can be emptied."""

    def __init__(self, folder: Path, case: "Moved", servers: Servers) -> None:
        self._home = folder
        extra = json.dumps({"session_timeout_s": case.settings.session_timeout_s, "policy": {"settle_s": 0.2}})
        self._options = {
            "connections": {
                "zookeeper_default": {"conn_type": "generic", "host": case.settings.zookeeper, "extra": extra},
                "kafka_default": {"conn_type": "kafka", "host": servers.client_settings["bootstrap.servers"]},
            },
            "env": {"COORDINATOR_CLUSTERS": case.settings.cluster},
            "expected_dags": ("rebalance", "reconcile"),
        }
        self.airflow = self._made()

    def _made(self) -> EmbeddedAirflow:
        return EmbeddedAirflow(self._home, PROJECT / "dags", PROJECT / "plugins", **self._options)  # type: ignore[arg-type]

    def kill(self) -> None:
        self.airflow.kill()

    def empty(self) -> None:
        """Killed, its database thrown away, and started with a new one."""
        self.airflow.kill()
        for file in self._home.glob("airflow.db*"):
            file.unlink()
        self.airflow = self._made()
        self.airflow.start()

    def runs(self) -> list[str]:
        return [one["dag_run_id"] for one in self.airflow.client.dag_runs("rebalance")]


def stopped(one: Orchestrator, _case: "Moved") -> None:
    one.airflow.stop()
    time.sleep(AWAY_S)
    one.airflow.start()


def killed(one: Orchestrator, _case: "Moved") -> None:
    one.airflow.kill()
    time.sleep(AWAY_S)
    one.airflow.start()


def killed_in_part(*services: Service) -> Callable[[Orchestrator, "Moved"], None]:
    def act(one: Orchestrator, _case: "Moved") -> None:
        one.airflow.kill(*services)
        one.airflow.start(*services)

    return act


def emptied(one: Orchestrator, _case: "Moved") -> None:
    one.empty()


def cleared(one: Orchestrator, case: "Moved") -> None:
    """The run that wrote the plan is cleared in its middle, and again when it has ended."""
    records = history.records(case.coordinator, case.topic, 500)
    run = records[0].actor.run
    for _ in range(2):
        clear_tasks(one.airflow.client, "rebalance", run, STEPS)
        wait_for_run(one.airflow.client, "rebalance", run, RUN_LIMIT_S)


def triggered(attempts: int) -> Callable[[Orchestrator, "Moved"], None]:
    """So many further runs of the same DAG at once."""

    def act(one: Orchestrator, _case: "Moved") -> None:
        runs = [one.airflow.client.trigger("rebalance") for _ in range(attempts)]
        for run in runs:
            wait_for_run(one.airflow.client, "rebalance", run, RUN_LIMIT_S)

    return act


DEEDS: Mapping[str, Callable[[Orchestrator, "Moved"], None]] = {
    "scheduler killed and started": killed_in_part(Service.SCHEDULER),
    "the same run cleared, twice": cleared,
    "killed and started": killed,
    "database emptied": emptied,
    "triggerer killed and started": killed_in_part(Service.TRIGGERER),
    "stopped and started": stopped,
    "four further runs at once": triggered(4),
    "database emptied, again": emptied,
}


@dataclass
class Moved(Case):
    """Two consumers stay; a third joins and leaves, one case after the other, on one Airflow."""

    bound_s: ClassVar[float] = 150.0
    third: bool = False
    known: int = field(default=0, init=False)

    def begin(self) -> None:
        """Stable with the two."""
        self.base = self.servers.ends()
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        with open_coordinator(self.settings) as c:
            topics.add_topic(c, self.topic, self.group, actor=Actor("command", "faults"))
        self._start(FIRST)
        self._start(SECOND)

    def first(self) -> None:
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable with both")
        self.known = len(history.records(self.coordinator, self.topic, 500))

    def move(self, deed: Callable[[], None]) -> dict[str, Any]:
        """The third joins or leaves; `deed` in the middle; Stable afterwards."""
        began = time.time()
        stays = {p for p, owner in self.node().assignments.items() if owner != THIRD}
        if self.third:
            self.actors[THIRD].process.terminate()  # type: ignore[union-attr]
            self.actors[THIRD].ended = True
        else:
            self._start(THIRD)
            self.actors[THIRD].ended = False
        self._await(lambda: '"Stable"' not in self._standing(), "the plan is written")
        deed()
        self.third = not self.third
        owners = {FIRST, SECOND, THIRD} if self.third else {FIRST, SECOND}
        self._await(lambda: self._settled(owners), f"Stable with {sorted(owners)}")
        ended = time.time()
        stays &= {p for p, owner in self.node().assignments.items() if owner != THIRD}
        rows = [row for row in self.rows.all() if began <= row.processed_at <= ended]
        new = history.records(self.coordinator, self.topic, 500)[::-1][self.known :]
        self.known += len(new)  # whatever comes from now on is the next case's, and needless there
        return {
            "problems": needless(new, leave=not self.third),
            "took_s": round(ended - began, 1),
            "pause_s": round(longest_pause_s(rows, sorted(stays), began, ended), 3),
            "records": len(rows),
            "moves": sum(len(record.moves) for record in new),
            "transitions": len([record for record in new if record.source is not record.target]),
            "notes": len([record for record in new if record.source is record.target]),
        }


def needless(new: Sequence[Record], *, leave: bool) -> list[str]:
    """What one join or leave does not need: further moves, transitions or rebalances.

    A record that stays in its state moves nothing. It notes who is a target, which a session that was lost on a busy machine
    changes and changes back; or that some partitions are closed, where others have been waited for past `settle_max_s`.
    """
    changes = [record for record in new if record.source is not record.target]
    path = tuple((record.source, record.target) for record in changes)
    moved = [move.partition for record in new for move in record.moves]
    found = []
    if path not in ((HANDED_OVER, LEFT_BEFORE) if leave else (HANDED_OVER,)):
        found.append(f"other transitions than one rebalance has: {[f'{a} to {b}' for a, b in path]}")
    if len({record.rebalance for record in changes}) != 1:
        found.append(f"not one rebalance: {[record.rebalance for record in changes]}")
    if len(moved) != FEWEST or len(set(moved)) != FEWEST:
        found.append(f"moved {moved}, the fewest are {FEWEST} partitions")
    return found


@contextmanager
def _site(turn: Turn) -> Iterator[tuple[Orchestrator, Moved]]:
    with own_servers(turn.folder, PARTITIONS) as servers, ExitStack() as ending:
        case = Moved(servers, "site", turn.folder / "case")
        ending.callback(case.close)
        one = Orchestrator(turn.folder / "airflow", case, servers)
        ending.callback(one.kill)
        case.begin()
        one.airflow.start()
        case.first()
        yield one, case


def _run(turn: Turn) -> None:
    due = turn.notes.due(DEEDS)
    if not due or turn.over():
        return
    with _site(turn) as (one, case):
        for key in due:
            if turn.over():
                return
            try:
                found = case.move(lambda key=key: DEEDS[key](one, case))
                problems = found.pop("problems") + case.judged()
            except (Failed, AirflowUnavailable) as error:
                turn.notes.add(AIRFLOW, key, problems=[str(error)])
                return
            if found["pause_s"] > PAUSE_LIMIT_S:
                problems.append(f"a partition that stays paused for {found['pause_s']:.1f} s")
            turn.notes.add(AIRFLOW, key, problems=problems, **found)


def _summary(notes: Notes, _: Wanted) -> str:
    lines = notes.of(AIRFLOW)
    return (
        f"{len(lines)} of {len(DEEDS)} cases; each rebalance ended, at most {figure(lines, 'took_s'):.0f} s after it began; "
        f"{sum(one.get('moves', 0) for one in lines):.0f} moves in {sum(one.get('transitions', 0) for one in lines):.0f} "
        f"transitions; the longest pause of a partition that stays {figure(lines, 'pause_s'):.2f} s"
    )


PART = Part(AIRFLOW, _run, _summary)
