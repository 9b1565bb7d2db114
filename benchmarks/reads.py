"""Cost of a taker's read of many nodes, with the product's wait for sockets and with kazoo's.

    python -m benchmarks.reads [--nodes 64] [--rounds 40] [--json FILE]

One ZooKeeper, one client of each kind, reads with watches in turns. Wall time, and processor time of this process: its
threads take turns at the interpreter, so both count on the way from a release to the first record.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any
from unittest.mock import patch

from kazoo.handlers.threading import SequentialThreadingHandler
from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, output, report, whole
from coordinator_tasks.adapters import zookeeper_session
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.ports import Create
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper

OURS, KAZOO = "poll", "kazoo's own"
WHAT = ("wall", "processor")
FOLDER, DATA = "/reads", b"x" * 200


def seen() -> None:
    """Do nothing on a watch; nothing is written here."""


def measure(nodes: int, rounds: int) -> dict[str, Any]:
    paths = [f"{FOLDER}/{number}" for number in range(nodes)]
    found: dict[str, list[tuple[float, float]]] = {OURS: [], KAZOO: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reads-")))
        hosts = stack.enter_context(EmbeddedZooKeeper(folder)).connect_string
        clients = {OURS: KazooZooKeeper(hosts)}
        with patch.object(zookeeper_session, "PollingHandler", SequentialThreadingHandler):
            clients[KAZOO] = KazooZooKeeper(hosts)
        for client in clients.values():
            stack.callback(client.close)
        clients[OURS].ensure(FOLDER)
        clients[OURS].transact([Create(path, DATA) for path in paths])
        for _ in range(rounds):
            for name, client in clients.items():
                found[name].append(timed(partial(client.get_many, paths, [seen] * nodes)))
    return {"milliseconds": {name: summary(one) for name, one in found.items()}}


def timed(read: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor milliseconds."""
    began = time.perf_counter(), time.process_time()
    read()
    return 1_000 * (time.perf_counter() - began[0]), 1_000 * (time.process_time() - began[1])


def summary(pairs: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """A quarter of the runs, the median, and three quarters."""
    columns = zip(*pairs, strict=True)
    return {what: [round(one, 1) for one in quantiles(column, n=4)] for what, column in zip(WHAT, columns, strict=True)}


def show(result: Mapping[str, Any]) -> None:
    table = Table(title=f"{result['nodes']} nodes read with watches, {result['rounds']} rounds, milliseconds")
    for name in ("", *WHAT):
        table.add_column(name, justify="right" if name else "left")
    for row in rows_of(result):
        table.add_row(*row)
    Console().print(table)


def rows_of(result: Mapping[str, Any]) -> list[list[str]]:
    """The median, with a quarter and three quarters of the runs; and by how much ours is quicker."""
    found = result["milliseconds"]
    rows = [[name, *(f"{m} ({low} to {high})" for low, m, high in one.values())] for name, one in found.items()]
    return [*rows, ["ratio of the medians", *(f"{found[OURS][w][1] / found[KAZOO][w][1]:.2f}" for w in WHAT)]]


def markdown(result: Mapping[str, Any]) -> str:
    titles = (f"{result['nodes']} nodes with watches", "wall ms (quarters)", "processor ms (quarters)")
    return f"{told(result, in_rounds(result['rounds']), 'in turns')}\n\n{grid(titles, rows_of(result))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=whole, default=64)
    parser.add_argument("--rounds", type=whole, default=40)
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    with noted(nodes=given.nodes, rounds=given.rounds) as result:
        result.update(measure(given.nodes, given.rounds))
    report(result, show, given.json)


if __name__ == "__main__":
    main()
