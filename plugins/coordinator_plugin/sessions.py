"""One coordinator per cluster and process. The triggerer runs many waits at the same time, for months.

A wait borrows the cluster's coordinator and gives it back. After the last return the coordinator stays open for
`LINGER_S`, because the next wait usually follows within seconds. Then the coordinator is closed, with its ZooKeeper
session. Thread-safe.
"""

import asyncio
import contextvars
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from coordinator_tasks.service.coordinator import Coordinator

LINGER_S = 30.0
THREADS = 16
Opener = Callable[[], AbstractContextManager[Coordinator]]
P = ParamSpec("P")
V = TypeVar("V")
_POOLS: dict[str, ThreadPoolExecutor] = {}


async def in_thread(cluster: str, call: Callable[P, V], *given: P.args, **named: P.kwargs) -> V:
    """Run `call` in a thread of this cluster, like `asyncio.to_thread`. A cluster has at most `THREADS`.

    While a cluster's ZooKeeper is down, each call blocks, and Airflow has only a few threads for all triggers.
    """
    if cluster not in _POOLS:
        _POOLS[cluster] = ThreadPoolExecutor(THREADS, thread_name_prefix=f"cluster-{cluster}")
    work = partial(contextvars.copy_context().run, call, *given, **named)
    return await asyncio.get_running_loop().run_in_executor(_POOLS[cluster], work)


def session_key(plain: Mapping[str, Any]) -> str:
    """Return the key of a cluster's session. The key changes with the cluster's settings."""
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()
    return f"{plain['cluster']} {digest}"


@dataclass(slots=True)
class _Entry:
    """A coordinator and its borrowers.

    While the coordinator opens (for seconds at worst), a thread holds the lock `opening`. `failure`: why the
    coordinator did not open, for the borrowers that wait. The next borrower gets a new entry.
    """

    users: int = 0
    opening: threading.Lock = field(default_factory=threading.Lock)
    context: ExitStack = field(default_factory=ExitStack)
    coordinator: Coordinator | None = None
    failure: BaseException | None = None
    closer: threading.Timer | None = None


class Sessions:
    """The open coordinators, by a key that the caller chooses."""

    def __init__(self, linger_s: float = LINGER_S) -> None:
        self._linger_s = linger_s
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, key: str, opener: Opener) -> Coordinator:
        """Borrow the coordinator. Block while it opens. If opening fails, all waiting borrowers get the error."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
            if entry.closer is not None:
                entry.closer.cancel()
                entry.closer = None
        with entry.opening:
            if entry.failure is not None:
                raise entry.failure
            if entry.coordinator is None:
                try:
                    entry.coordinator = entry.context.enter_context(opener())
                except BaseException as error:
                    entry.failure = error
                    with self._lock:
                        del self._entries[key]
                    raise
            return entry.coordinator

    def give_back(self, key: str) -> None:
        """Give the coordinator back. It is closed after `LINGER_S` without a borrower. Never blocks for long."""
        with self._lock:
            entry = self._entries[key]
            entry.users -= 1
            if entry.users:
                return
            entry.closer = threading.Timer(self._linger_s, self._close, (key, entry))
            entry.closer.daemon = True
            entry.closer.start()

    def _close(self, key: str, entry: _Entry) -> None:
        with self._lock:
            if entry.users or self._entries.get(key) is not entry:
                return
            del self._entries[key]
            # The timer refers to the entry. Without this line, Kafka's clients would stay open until Python collects
            # the cycle.
            entry.closer = None
        entry.context.close()

    @asynccontextmanager
    async def borrow(self, cluster: str, key: str, opener: Opener) -> AsyncIterator[Coordinator]:
        """Borrow the coordinator in a coroutine. A thread of the cluster opens it."""
        opening = asyncio.ensure_future(in_thread(cluster, self.take, key, opener))
        try:
            coordinator = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread still opens the coordinator, so give it back afterwards.
            opening.add_done_callback(lambda done: self._give_back_late(key, done))
            raise
        try:
            yield coordinator
        finally:
            self.give_back(key)

    def _give_back_late(self, key: str, done: "asyncio.Future[Coordinator]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.give_back(key)


SHARED = Sessions()
"""The sessions of this process."""
