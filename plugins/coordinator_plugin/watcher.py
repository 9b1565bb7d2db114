"""Wakes DAGs when ZooKeeper changes: an asset watcher's trigger.

The trigger compares ZooKeeper with its last view, which is stored in the asset's state store. So a change while no
triggerer runs is found at the next start. The trigger reads when a watch fires, and every few seconds. An event names
the change but not the action, because the woken run reads ZooKeeper itself.

Between reads, the trigger tries a connection to each consumer. So a dead consumer's refusals are noted before its
session expires.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from coordinator_plugin.changes import Scope, Seen, differences, observe
from coordinator_plugin.sessions import in_thread
from coordinator_plugin.triggers import RECONNECT_S, Wake, borrowed
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Member
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import refused_connections

LOOK_S = 5.0
NOTE_S = 1.0
# Pause per time spent connecting: connections take at most a fifth of the time.
REST = 4
COALESCE_S = 0.15
# Seconds until a change counts as seen. The triggerer may store its event up to a second after firing.
STORED_AFTER_S = 3.0
KEY = "seen"
log = logging.getLogger(__name__)


class ZooKeeperChangesTrigger(BaseEventTrigger):
    """Fires when a node of `scope` has changed in this cluster. While ZooKeeper is down, waits and connects again."""

    def __init__(self, cluster: str, scope: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster = cluster
        self.scope = scope
        self._seen: Seen = {}
        self._unstored_since_s: float | None = None
        self._refusing: frozenset[str] | None = None
        self._note_at_s = 0.0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "coordinator_plugin.watcher.ZooKeeperChangesTrigger", {"cluster": self.cluster, "scope": self.scope}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for the changes of each `COALESCE_S`; at once for a lost consumer. Never ends by itself."""
        self._seen = await self._load()
        wake, problem = Wake(), ""
        while True:
            try:
                async with await borrowed(self.cluster) as coordinator:
                    while True:
                        event = await self._look(coordinator, wake)
                        if problem:
                            log.info("watching cluster %s again", self.cluster)
                            problem = ""
                        if event is not None:
                            yield event
                            self._unstored_since_s = time.monotonic()
                        await self._store()
                        await self._rest(coordinator, wake)
            except CoordinatorError as error:
                if error.told != problem:
                    problem = error.told
                    log.warning("holding: %s", problem)
                await asyncio.sleep(RECONNECT_S)

    async def _look(self, coordinator: Coordinator, wake: Wake) -> TriggerEvent | None:
        now = await in_thread(self.cluster, observe, coordinator, Scope(self.scope), wake.from_thread)
        changes = differences(self._seen, now)
        gone = self._seen.get("member", {}).keys() - now["member"].keys()
        if changes and not gone:
            await asyncio.sleep(COALESCE_S)
            now = await in_thread(self.cluster, observe, coordinator, Scope(self.scope), wake.from_thread)
            changes = differences(self._seen, now)
        self._seen = now
        if not changes:
            return None
        for change in changes:
            log.info("%s: %s", self.cluster, change)
        return TriggerEvent(  # type: ignore[no-untyped-call]
            {"cluster": self.cluster, "changes": changes, "at": time.time()}
        )

    async def _rest(self, coordinator: Coordinator, wake: Wake) -> None:
        """Wait for the next look. Fast changes bring more looks, but no more connections."""
        until_s = time.monotonic() + (LOOK_S if self._unstored_since_s is None else STORED_AFTER_S)
        members: Mapping[str, Member] = {}
        while (left_s := until_s - time.monotonic()) > 0:
            due_s = left_s if self.scope == Scope.FLEET else self._note_at_s - time.monotonic()
            if due_s <= 0:
                members = members or await in_thread(self.cluster, coordinator.discovery.members)
                await self._note(coordinator, members)
            elif await wake.wait(min(left_s, due_s)):
                return

    async def _note(self, coordinator: Coordinator, members: Mapping[str, Member]) -> None:
        begun_s = time.monotonic()
        self._refusing = await in_thread(self.cluster, refused_connections.note, coordinator, members, self._refusing)
        ended_s = time.monotonic()
        self._note_at_s = ended_s + max(NOTE_S, REST * (ended_s - begun_s))

    async def _load(self) -> Seen:
        store = self._state_store
        stored = await store.aget(KEY) if store is not None else None
        return cast("Seen", stored) if isinstance(stored, dict) else {}

    async def _store(self) -> None:
        if self._unstored_since_s is None or time.monotonic() - self._unstored_since_s < STORED_AFTER_S:
            return
        self._unstored_since_s = None
        if (store := self._state_store) is not None:
            await store.aset(KEY, cast("dict[str, Any]", self._seen))

    @property
    def _state_store(self) -> Any:
        """Return the state store.

        Airflow 3.2 has no state store. So each start of a triggerer wakes the DAGs, whose runs then find no work.
        """
        return getattr(self, "asset_state_store", None)
