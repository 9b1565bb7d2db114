"""What a task of ours takes more than an empty one: runs of both in turn, on LocalExecutor and PostgreSQL.

    python -m benchmarks.task_overhead [--runs 10] [--set section.option=value ...] [--json FILE]

One topic with 12 partitions and two consumers is Stable, so every task opens the coordinator, asks and writes nothing. `run`
is a task's time by Airflow, `chain` the time of a run of six tasks in a row by their number. `--set` changes a setting of Airflow.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.airflow import airflow_for
from benchmarks.circumstances import noted, told
from benchmarks.rebalance import STAYING, Rounds, Site, at
from benchmarks.result import grid, output, report, whole
from coordinator_tasks.core.model import Actor
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import wait_for_run
from tests.postgres_server import PostgresServer

DAGS = Path(__file__).parent / "dags" / "tasks.py"
KINDS = {"empty": "empty_tasks", "ours": "our_tasks"}
TASKS, UNCOUNTED_RUNS = 6, 2
LIMIT_S, MIGRATE_LIMIT_S = 120.0, 240.0


def measure(runs: int, settings: Mapping[str, str]) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(folder / "zookeeper"))
        kafka = stack.enter_context(EmbeddedKafka(folder / "kafka"))
        postgres = stack.enter_context(PostgresServer())
        site = Site("tasks", zookeeper.connect_string, kafka.bootstrap_servers, folder, settle_s=0.2)
        c = stack.enter_context(open_coordinator(site.settings))
        topics.add_topic(c, site.topic, "group", actor=Actor("command", "benchmark"))
        for consumer in STAYING:
            stack.enter_context(site.consumer(consumer))
        airflow = on_postgres(site, postgres, settings)
        stack.callback(airflow.kill)
        airflow.start()
        airflow.client.trigger("rebalance")
        Rounds(site, c).stable(0.0, set(STAYING))
        for dag in ("rebalance", "reconcile", "consumers"):
            airflow.client.set_paused(dag, True)
        assert not transitions.due(c, (site.topic,)), "nothing is to be done"
        result = stack.enter_context(noted(settings=dict(settings), runs=runs))
        found: dict[str, list[tuple[list[float], float]]] = {kind: [] for kind in KINDS}
        for number in range(UNCOUNTED_RUNS + runs):
            for kind, dag in KINDS.items():
                once = one_run(airflow, dag)
                found[kind] += [once] if number >= UNCOUNTED_RUNS else []
    for kind, several in found.items():
        result[kind] = {
            "run_s": [round(task, 3) for tasks, _ in several for task in tasks],
            "chain_s": [round(chain / TASKS, 3) for _, chain in several],
        }
    result["more_s"] = {name: difference(result, name) for name in ("run_s", "chain_s")}
    return result


def difference(result: Mapping[str, Any], name: str) -> float:
    more: float = median(result["ours"][name]) - median(result["empty"][name])
    return round(more, 3)


def on_postgres(site: Site, postgres: PostgresServer, settings: Mapping[str, str]) -> EmbeddedAirflow:
    """Return an Airflow, not started yet, with an existing database."""
    database = f"tests@/postgres?host={postgres.folder}"
    places = {
        "database.sql_alchemy_conn": f"postgresql+psycopg2://{database}",
        "database.sql_alchemy_conn_async": f"postgresql+asyncpg://{database}",
    }
    airflow = airflow_for(
        site.folder,
        [site.settings.cluster],
        site.settings.zookeeper,
        site.settings.kafka["bootstrap.servers"],
        {"policy": {"settle_s": site.settings.policy.settle_s}},
        [DAGS],
        settings={**places, **settings},
        dags=KINDS.values(),
    )
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env={**os.environ, **airflow.environment},
        cwd=airflow.home,
        check=True,
        capture_output=True,
        timeout=MIGRATE_LIMIT_S,
    )
    return airflow


def one_run(airflow: EmbeddedAirflow, dag: str) -> tuple[list[float], float]:
    """The seconds of each task, and from the first one's start to the last one's end."""
    run = airflow.client.trigger(dag)
    if wait_for_run(airflow.client, dag, run, LIMIT_S) != "success":
        sys.exit(f"run {run} of {dag} failed, see {airflow.home}")
    tasks = airflow.client.task_instances(dag, run)
    starts, ends = [at(one["start_date"]) for one in tasks], [at(one["end_date"]) for one in tasks]
    return [end - start for start, end in zip(starts, ends, strict=True)], max(ends) - min(starts)


def show(result: dict[str, Any]) -> None:
    table = Table(title=f"{result['runs']} runs of each, load {result['load_before']:.1f}, {result['settings']}")
    for name in ("seconds, median", "empty", "ours", "more"):
        table.add_column(name)
    for name in ("run_s", "chain_s"):
        values = (median(result["empty"][name]), median(result["ours"][name]), result["more_s"][name])
        table.add_row(name, *(f"{one:.3f}" for one in values))
    Console().print(table)


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each version of the tasks in the result: one, or before and after a change."""
    parts = {name: result[name] for name in ("before", "after") if name in result} or {"": result}
    rows = []
    for name, part in parts.items():
        load = part["load_before"], part["load_after"]
        before, after = (one if isinstance(one, float) else one[0] for one in load)
        for what, title in (("run_s", "a task"), ("chain_s", "a task of six in a row, with the way to the next")):
            seconds = (median(part["empty"][what]), median(part["ours"][what]), part["more_s"][what])
            row = f"{title}{name and f', {name}'}"
            rows.append([row, *(f"{one:.2f}" for one in seconds), f"{before:.1f} to {after:.1f}"])
    head = next(iter(parts.values()))
    table = grid(("seconds, median", "empty", "ours", "more", "load"), rows)
    machine = {name: value for name, value in head.items() if not name.startswith("load")}
    return f"{told(machine, str(head['runs']) + ' runs of each')}\n\n{table}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=whole, default=10)
    parser.add_argument("--set", nargs="*", default=[], metavar="section.option=value")
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    report(measure(given.runs, dict(one.split("=", 1) for one in given.set)), show, given.json)


if __name__ == "__main__":
    main()
