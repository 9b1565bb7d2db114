"""Garbage in the nodes of a topic in the middle of a hand-off: never a crash, never an action, always an error with the path."""

import logging
import threading
from collections.abc import Callable

import pytest

from coordinator_tasks.core import names
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import loop
from coordinator_tasks.service.watch import overview
from tests.faults.hostile import ODD_TEXTS, tree
from tests.world.site import LOOP, Site, stable_site

GARBAGE = (b"{", b"[]", b'{"version":99}')
MOVING = 3  # handed over by a join of c, so that its release is read
NODES: dict[str, Callable[[Paths], str]] = {
    "topic node": lambda paths: paths.topic("orders"),
    "release": lambda paths: paths.partition("orders", MOVING),
    "state": lambda paths: paths.state("orders"),
    "config": lambda paths: paths.config("orders"),
}


def joined_and_handing_over() -> Site:
    """a and b share orders, c has joined and everything of it is on its way: something is always due."""
    site = stable_site("a", "b")
    site.starts("c")
    site.clock.advance(2)
    (report,) = transitions.plan(site.coordinator, ["orders"], LOOP)
    assert report.outcome is TopicOutcome.WRITTEN
    assert MOVING in site.node().handoff
    site.clock.advance(2)
    return site


def put(site: Site, path: str, raw: bytes) -> None:
    found = site.zk.find(path)
    site.zk.transact([Create(path, raw) if found is None else SetData(path, raw)])


def everything(site: Site) -> list[TopicReport]:
    """Every step that runs by itself, and what a person looks at."""
    c = site.coordinator
    reports = transitions.step(c, transitions.topics(c), LOOP)
    for look in (transitions.due, transitions.await_closed, transitions.await_started):
        look(c, ["orders"])
    return reports


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("raw", GARBAGE)
def test_a_node_that_cannot_be_read_is_named_and_nothing_is_done(kind: str, raw: bytes) -> None:
    site = joined_and_handing_over()
    path = NODES[kind](site.paths)
    good = site.zk.get(path).data
    put(site, path, raw)
    before = tree(site)
    (report,) = everything(site)
    assert (report.outcome, path in report.reason) == (TopicOutcome.HELD, True)
    the_loop_turns(site)
    assert tree(site) == before
    put(site, path, good)
    assert everything(site)[0].outcome is not TopicOutcome.HELD, "readable again, it goes on"


def possible_children() -> list[str]:
    """Odd names that a person can give a znode (ZooKeeper itself refuses some)."""
    usable = [n for n in ODD_TEXTS if n not in ("", ".", "..") and "/" not in n and n.isprintable() and len(n) < 300]
    return sorted(set(usable) - {"CON", "zookeeper"} - {n for n in usable if names.is_consumer(n)})


@pytest.mark.parametrize(
    "folder", ["assignments", "config", "state", "members", "ids", "directives", "fleet", "history"]
)
def test_a_child_with_a_strange_name_stops_neither_the_loop_nor_any_topic(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    site = joined_and_handing_over()
    for child in possible_children():
        for data in (b"", b"{}", b'{"version": 1}'):
            path = f"{site.paths.base}/{folder}/{child}"
            put(site, path, data)
            before = site.zk.get(path)
            reports = {report.topic: report for report in everything(site)}
            assert reports["orders"].outcome is not TopicOutcome.HELD, (path, reports)
            strange = reports.get(child)
            assert strange is None or (
                strange.outcome is TopicOutcome.HELD and ("topic name" in strange.reason or path in strange.reason)
            )
            look_around(site)
            assert site.zk.get(path) == before, "it is left as it is"
    the_loop_turns(site)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    assert (folder == "members") == any("is no consumer's registration" in one.getMessage() for one in caplog.records)


def look_around(site: Site) -> None:
    """What runs by itself beside the transitions, and what people look at."""
    c = site.coordinator
    topics.refresh_partitions(c)
    directives.complete_readmissions(c)
    overview.topics(c)
    overview.consumers(c)
    fleet.missing(c)


def the_loop_turns(site: Site) -> None:
    stop, turns = threading.Event(), 0
    sleep = site.coordinator.discovery.watch

    def watch(watcher: Callable[[], None]) -> None:
        nonlocal turns
        turns += 1
        if turns > 1:
            stop.set()
        sleep(watcher)

    site.coordinator.discovery.watch = watch  # type: ignore[method-assign]
    thread = threading.Thread(target=loop.run, args=(site.coordinator, stop, "test"), daemon=True)
    thread.start()
    thread.join(20)
    assert stop.is_set(), "the loop has died"
