"""Shared sessions of the triggerer."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from coordinator_plugin import sessions

from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.service.coordinator import Coordinator
from tests.fakes.cluster import Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened


def test_many_waits_share_a_session_closed_some_time_after_the_last_wait(shop: Cluster) -> None:
    opened, shared = Opened(shop.coordinator), sessions.Sessions(linger_s=0.2)
    for _ in range(5):
        shared.take("main", opened)
    for _ in range(5):
        shared.give_back("main")
    assert (opened.opened, opened.closed) == (1, 0)
    shared.take("main", opened)
    time.sleep(0.4)
    assert opened.closed == 0  # borrowed again in time
    shared.give_back("main")
    deadline_s = time.monotonic() + 5
    while opened.closed == 0 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert (opened.opened, opened.closed, len(shared)) == (1, 1, 0)


def test_a_closed_coordinator_waits_for_no_garbage_collection() -> None:
    """The coordinator has Kafka's clients, each with threads and connections."""

    class Made:
        pass

    known: list[weakref.ref[Made]] = []

    @contextmanager
    def opened() -> Iterator[Any]:
        made = Made()
        known.append(weakref.ref(made))
        yield made

    shared = sessions.Sessions(linger_s=0.01)
    gc.disable()
    try:
        shared.take("main", opened)
        shared.give_back("main")
        deadline_s = time.monotonic() + 5
        while known[0]() is not None and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert known[0]() is None
    finally:
        gc.enable()


def test_what_cannot_be_opened_leaves_nothing_behind(shop: Cluster) -> None:
    shared = sessions.Sessions()
    with pytest.raises(StoreUnavailable):
        shared.take("main", Opened(shop.coordinator, StoreUnavailable("away")))
    assert len(shared) == 0


def test_all_who_wait_for_an_opening_share_its_failure_and_the_next_one_opens_anew() -> None:
    shared, opened = sessions.Sessions(), []

    def late() -> AbstractContextManager[Coordinator]:
        opened.append("main")
        deadline_s = time.monotonic() + 5
        while shared._entries["main"].users < 4 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        raise StoreUnavailable("away")

    for attempts in (1, 2):
        with ThreadPoolExecutor(4) as threads:
            errors = [one.exception() for one in [threads.submit(shared.take, "main", late) for _ in range(4)]]
        assert list(map(str, errors)) == ["away"] * 4
        assert (len(opened), len(shared)) == (attempts, 0)


def test_a_cluster_whose_zookeeper_is_away_takes_no_thread_from_another_cluster(shop: Cluster) -> None:
    shared, opened, back = sessions.Sessions(), Opened(shop.coordinator), threading.Event()

    def late() -> AbstractContextManager[Coordinator]:
        back.wait(10)
        raise StoreUnavailable("away")

    async def waits(cluster: str, opener: sessions.Opener) -> None:
        async with shared.borrow(cluster, cluster, opener):
            pass

    async def triggerer() -> None:
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(2)
        )  # as many as in Airflow, by the number of processors
        away = [asyncio.create_task(waits("eu", late)) for _ in range(3)]
        try:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(5):
                await waits("shop", opened)
        finally:
            back.set()
        assert list(map(str, await asyncio.gather(*away, return_exceptions=True))) == ["away"] * 3

    asyncio.run(triggerer())
    assert opened.opened == 1
