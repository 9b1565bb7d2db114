"""Lets requests read from ZooKeeper without blocking the API server.

- Each process has one ZooKeeper session per cluster. A request opens the session, and a time without requests closes
  it.
- Each cluster has a few threads of its own, so that a dead ZooKeeper never blocks the threads of Airflow or of another
  cluster.
- Every page has a time limit. For a short while after a failure, further pages fail at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar, cast

from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.sessions import Sessions, session_key

from coordinator_tasks.core.errors import CoordinatorError, StoreUnavailable
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import settings_of
from coordinator_tasks.wiring import open_coordinator
from coordinator_ui.access import ReadableCluster

THREADS = 4
PAGE_LIMIT_S = 8.0
ANSWER_LIMIT_S = 4.0  # seconds, for an answer of ZooKeeper
ASK_LIMIT_S = 1.5  # seconds, for the consumers' interfaces, which are all asked at once
SHARE_S = 1.5
MOST_SHARED = 500
REMEMBER_FAILURE_S = 3.0
LINGER_S = 60.0
T = TypeVar("T")
Opener = Callable[[], AbstractContextManager[Coordinator]]
Connect = Callable[[str], tuple[str, Opener]]


def connect(cluster: str) -> tuple[str, Opener]:
    """Return the key of a cluster's session and the function that opens it. The key changes with the connections."""
    plain = CoordinatorHook(cluster).plain_settings()
    settings = settings_of(plain)
    patient = replace(
        settings,
        answer_timeout_s=min(settings.answer_timeout_s, ANSWER_LIMIT_S),
        ask_timeout_s=min(settings.ask_timeout_s, ASK_LIMIT_S),
    )
    return session_key(plain), lambda: open_coordinator(patient)


async def each(names: Collection[str], reads: Iterable[Awaitable[T]]) -> dict[str, T | CoordinatorError]:
    """Return cluster → result, or the error of reading this cluster. Raises any other error."""
    found: dict[str, T | CoordinatorError] = {}
    answers = await asyncio.gather(*reads, return_exceptions=True)
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, CoordinatorError):
            raise answer
        found[name] = answer
    return found


class SharedAnswers:
    """Answers that several viewers share, so that not every browser asks a cluster with many consumers.

    Failures are not kept here, because `ClusterReader` remembers them. Stale answers are dropped, because an answer may
    be as large as its cluster.
    """

    def __init__(self, fresh_s: float = SHARE_S) -> None:
        self._fresh_s = fresh_s
        self._locks: dict[str, asyncio.Lock] = {}
        self._kept: dict[str, tuple[float, Any]] = {}

    async def get(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return the recent answer for this key, or make a new answer. At most `MOST_SHARED` answers are kept."""
        if len(self._locks) > MOST_SHARED:
            self._locks.clear()
            self._kept.clear()
        async with self._locks.setdefault(key, asyncio.Lock()):
            since_s = time.monotonic() - self._fresh_s
            self._kept = {one: (made_s, value) for one, (made_s, value) in self._kept.items() if made_s >= since_s}
            if key not in self._kept:
                made = await make()
                self._kept[key] = (time.monotonic(), made)
            return cast("T", self._kept[key][1])


class ClusterReader:
    """Runs reading functions, each with its cluster's coordinator."""

    def __init__(
        self,
        connect_to: Connect = connect,
        *,
        page_limit_s: float = PAGE_LIMIT_S,
        linger_s: float = LINGER_S,
        threads: int = THREADS,
    ) -> None:
        self._connect = connect_to
        self._limit_s = page_limit_s
        self._sessions = Sessions(linger_s)
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._threads = threads
        self._failures: dict[str, tuple[StoreUnavailable, float]] = {}
        """Cluster → why the cluster could not be read, and when to try again (monotonic time)."""

    async def read(self, cluster: ReadableCluster, read: Callable[[Coordinator], T]) -> T:
        """Return the result of `read`. Raises the errors of `read`, and `StoreUnavailable` after the time limit."""
        self._raise_failure(cluster)
        if cluster not in self._pools:
            self._pools[cluster] = ThreadPoolExecutor(self._threads, thread_name_prefix=f"coordinator-page-{cluster}")
        work = asyncio.get_running_loop().run_in_executor(self._pools[cluster], self._run, cluster, read)
        try:
            # The time limit must not cancel a running call. A call that still waits for a thread is cancelled below.
            found = await asyncio.wait_for(asyncio.shield(work), self._limit_s)
        except TimeoutError:
            late = StoreUnavailable(
                f"cluster {cluster} could not be read within {self._limit_s:g} s; reload to try again"
            )
            self._remember(cluster, late)
            raise late from None
        finally:  # even if no request waits any more
            work.cancel()
            # asyncio would log an exception that is never retrieved
            work.add_done_callback(lambda late: late.cancelled() or late.exception())
        self._failures.pop(cluster, None)
        return found

    def _run(self, cluster: str, read: Callable[[Coordinator], T]) -> T:
        self._raise_failure(cluster)  # another page may have set the failure while this page waited for a thread
        key, opener = self._connect(cluster)
        try:
            coordinator = self._sessions.take(key, opener)
            try:
                return read(coordinator)
            finally:
                self._sessions.give_back(key)
        except StoreUnavailable as error:
            self._remember(cluster, error)
            raise

    def _raise_failure(self, cluster: str) -> None:
        if (failure := self._failures.get(cluster)) is not None and time.monotonic() < failure[1]:
            raise failure[0]

    def _remember(self, cluster: str, error: StoreUnavailable) -> None:
        self._failures[cluster] = error, time.monotonic() + REMEMBER_FAILURE_S
