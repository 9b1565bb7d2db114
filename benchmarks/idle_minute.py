"""Requests of one idle minute: of Airflow's task `reconcile`, and of the plain loop, on the fakes of the tests.

    PYTHONPATH=.:plugins python -m benchmarks.idle_minute [--topics 3] [--consumers 3] [--json FILE]

All topics are Stable for an hour. `reconcile` also sends the figures, as with metrics on; the plain loop runs 60 turns.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from coordinator_plugin import stats
from coordinator_plugin.reconcile import reconcile
from rich.console import Console
from rich.table import Table

from benchmarks.result import options, report, whole
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.run import loop
from tests.fakes.counted import counted
from tests.world.site import Site, stable_site

STABLE_S = 3_600.0
TURNS = 60


def measure(topics: int, consumers: int) -> dict[str, Any]:
    result: dict[str, Any] = {"topics": topics, "consumers": consumers}
    works: dict[str, Callable[[Coordinator], object]] = {"reconcile": task, "plain loop": turns}
    for name, work in works.items():
        c, requests = counted(idle_site(topics, consumers).coordinator)
        work(c)
        result[name] = requests.plain()
    return result


def idle_site(topics: int, consumers: int) -> Site:
    """Return a site that has moved nothing for an hour."""
    names = tuple(f"topic-{number}" for number in range(topics))
    site = stable_site(*(f"c{number}" for number in range(consumers)), names=names)
    site.clock.advance(STABLE_S)
    return site


def task(c: Coordinator) -> None:
    """The work of a run of `reconcile`."""
    with patch.object(stats, "are_on", lambda: True), patch.object(stats, "_send", lambda *_: None):
        findings = reconcile(c)
        stats.tell_figures(c, lambda: 60.0, findings.seen)
    assert not findings.due, "the minute is not idle"


def turns(c: Coordinator) -> None:
    """A minute of the plain loop, a turn per second."""
    stop, left = threading.Event(), iter(range(TURNS - 1, -1, -1))

    def pass_second(*_: object) -> None:
        c.clock.sleep(loop.QUIET_S)
        if not next(left):
            stop.set()

    with patch.object(loop, "_pause", pass_second):
        loop.run(c, stop, "benchmark")


def show(result: Mapping[str, Any]) -> None:
    table = Table(title=f"an idle minute of {result['topics']} topics and {result['consumers']} consumers")
    for name in ("requests", "reconcile", "plain loop"):
        table.add_column(name, justify="left" if name == "requests" else "right")
    for what in result["reconcile"]:
        table.add_row(what, *(str(result[name][what]) for name in ("reconcile", "plain loop")))
    Console().print(table)


def main() -> None:
    logging.disable(logging.INFO)
    parser = options(__doc__)
    parser.add_argument("--topics", type=whole, default=3)
    parser.add_argument("--consumers", type=whole, default=3)
    given = parser.parse_args()
    report(measure(given.topics, given.consumers), show, given.json)


if __name__ == "__main__":
    main()
