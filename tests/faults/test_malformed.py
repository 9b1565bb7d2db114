"""Garbage in every znode, generated from a seed: never a crash, never an action, always an error with its path."""

import logging
import threading
from collections.abc import Callable
from itertools import islice

import pytest

from coordinator_tasks.core import names
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import State
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.run import loop
from coordinator_tasks.service.watch import overview
from tests.faults.malformed import (
    ASIDE,
    NEEDED,
    ODD_TEXTS,
    OF_ONE,
    PLACES,
    everything,
    joined_and_handing_over,
    offered,
    put,
    tree,
    unreadable,
)
from tests.world.site import Site

EACH = 200
SEED = 7


@pytest.mark.parametrize("kind", NEEDED)
def test_a_node_that_cannot_be_read_is_named_and_nothing_is_done(kind: str) -> None:
    site = joined_and_handing_over()
    path = PLACES[kind](site.paths)
    good = site.zk.find(path)
    assert offered(site, kind, islice(unreadable(SEED, kind), EACH)) == []
    before = tree(site)
    the_loop_turns(site)
    assert tree(site) == before
    assert good is not None
    put(site, path, good.data)
    assert everything(site)[0].outcome is not TopicOutcome.HELD, "readable again, it goes on"


@pytest.mark.parametrize("kind", OF_ONE)
def test_a_node_of_one_consumer_that_cannot_be_read_is_named_and_stops_nobody_else(kind: str) -> None:
    site = joined_and_handing_over()
    path = PLACES[kind](site.paths)
    good = site.zk.find(path)
    assert offered(site, kind, islice(unreadable(SEED, kind), EACH)) == []
    the_loop_turns(site)
    assert good is not None
    put(site, path, good.data)
    site.settles()
    assert site.counts().keys() == {"a", "b", "c"}


@pytest.mark.parametrize("kind", ASIDE)
def test_what_no_transition_reads_keeps_no_topic_waiting_and_is_named_by_whoever_reads_it(kind: str) -> None:
    site = joined_and_handing_over()
    assert offered(site, kind, islice(unreadable(SEED, kind), EACH)) == []
    the_loop_turns(site)
    site.settles()
    assert site.state().state is State.STABLE


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
