"""Waits in the triggerer. A wait asks the consumers' interfaces, wakes on ZooKeeper's watches, and ends its task.

A task that ends here needs no worker to resume. The triggerer runs one event loop for all triggers. So blocking calls
run in threads, and ZooKeeper's threads reach the loop through `call_soon_threadsafe`.
"""

import asyncio
import json
import logging
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from coordinator_plugin.confirmation import PATIENCE_S, ConfirmationWait, Patience, WaitKind, WaitOutcome
from coordinator_plugin.hook import CoordinatorHook, opened
from coordinator_plugin.sessions import SHARED, in_thread, session_key
from coordinator_plugin.steps import registered
from coordinator_plugin.stuck_topics import still_asked
from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused, Unavailable
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import plans_to_approve

POLL_S = 0.3
RECONNECT_S = 1.0
log = logging.getLogger(__name__)


class Wake:
    """An event of this loop that other threads may set.

    All watches share one watcher, so that the number of watches does not grow.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def from_thread(self) -> None:
        """Wake the loop; this method is the watcher. Never blocks, and does nothing after the loop has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, limit_s: float) -> bool:
        """Wait at most `limit_s`. Return whether another thread has set the event."""
        try:
            return await asyncio.wait_for(self._event.wait(), limit_s)
        except TimeoutError:
            return False
        finally:
            self._event.clear()


async def borrowed(cluster: str) -> AbstractAsyncContextManager[Coordinator]:
    """Return this process's coordinator of the cluster, with the current connections."""
    plain = await asyncio.to_thread(lambda: CoordinatorHook(cluster).plain_settings())
    return SHARED.borrow(cluster, session_key(plain), lambda: opened(plain))


@dataclass(eq=False, repr=False)
class ZooKeeperTrigger(BaseTrigger):
    """A wait that uses the cluster's coordinator. If ZooKeeper or the registry does not answer, the wait borrows it
    again.

    Airflow stores the fields.
    """

    cluster: str

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {one.name: getattr(self, one.name) for one in fields(self)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """End the task with the result of `watch`; as failed if a person has to change something first."""
        wake = Wake()
        while True:
            try:
                async with await borrowed(self.cluster) as coordinator:
                    yield await self.watch(coordinator, wake)
                    return
            except (Refused, Malformed) as error:
                log.error("%s", error.told)  # noqa: TRY400 - one line for the person who has to change something
                yield TaskFailedEvent()
                return
            except Unavailable as error:
                log.warning("holding: %s", error.told)
                if (end := self.given_up(str(error))) is not None:
                    yield end
                    return
                await asyncio.sleep(RECONNECT_S)

    @abstractmethod
    async def watch(self, coordinator: Coordinator, wake: Wake) -> TriggerEvent:
        """Wait, and return the event that ends the task. Raises the coordinator's errors."""

    @abstractmethod
    def given_up(self, problem: str) -> TriggerEvent | None:
        """Return the event that ends the task because of a lasting `problem`; `None` to continue the wait."""


@dataclass(eq=False, repr=False)
class ConfirmationTrigger(ZooKeeperTrigger):
    """Waits at most `limit_s` until the consumers have confirmed. `topics`: a JSON list; empty means all.

    The task succeeds with any outcome. It fails only if the coordinator cannot ask the consumers.
    """

    kind: str
    topics: str
    limit_s: float
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        super().__post_init__()
        patience = Patience(time.monotonic(), float(self.limit_s), float(self.patience_s))
        self._wait = ConfirmationWait(WaitKind(self.kind), tuple(json.loads(self.topics or "[]")), patience, log.info)

    async def watch(self, coordinator: Coordinator, wake: Wake) -> TriggerEvent:
        while (outcome := await in_thread(self.cluster, self._wait.poll, coordinator, wake.from_thread)) is None:
            await wake.wait(POLL_S)
        return self._ended(outcome)

    def given_up(self, problem: str) -> TriggerEvent | None:
        outcome = self._wait.patience.judge_unread(problem, time.monotonic())
        return self._ended(outcome) if outcome is not None else None

    def _ended(self, outcome: WaitOutcome) -> TriggerEvent:
        log.info("%s after %.1f s", outcome.outcome, outcome.waited_s)
        return TaskSuccessEvent(xcoms={"return_value": outcome.plain()})


@dataclass(eq=False, repr=False)
class RegistrationTrigger(ZooKeeperTrigger):
    """Waits until a launched consumer has registered. `folder`: the run folder; empty if it is on another host.

    The deadline (seconds since 1970) survives a restart of the triggerer. A failure shows the end of the driver's log.
    An end of the consumer before `began_at` belongs to an earlier start.
    """

    consumer: str
    folder: str
    limit_s: float
    deadline_at: float
    began_at: float = 0.0

    async def watch(self, coordinator: Coordinator, wake: Wake) -> TriggerEvent:
        folder = RunFolder(Path(self.folder)) if self.folder else None
        while True:
            member = await in_thread(self.cluster, registered, coordinator, self.consumer, wake.from_thread)
            if member is not None:
                log.info("%s is registered at %s, incarnation %s", self.consumer, member.address, member.incarnation)
                known: dict[str, Any] = {"incarnation": member.incarnation, "address": member.address}
                return TaskSuccessEvent(xcoms={"return_value": {"consumer": self.consumer, **known}})
            code = folder.exit_code(self.began_at) if folder else None
            if code is not None:
                how = (folder.reason() if folder else "") or f"exit code {code}"
                return self._failed(f"{self.consumer} ended before it had registered: {how}", folder)
            if self._late():
                still = "it keeps running, and the next try waits for it" if folder else "it may still start"
                return self._failed(f"{self.consumer} has not registered within {self.limit_s:g} s; {still}", folder)
            await wake.wait(POLL_S)

    def given_up(self, problem: str) -> TriggerEvent | None:  # noqa: ARG002 - it is already in the log
        return TaskFailedEvent() if self._late() else None

    def _late(self) -> bool:
        return time.time() > self.deadline_at

    def _failed(self, sentence: str, folder: RunFolder | None) -> TriggerEvent:
        log.error("%s; its log is %s", sentence, folder.log if folder else "where its master keeps it")
        for line in folder.log_tail().splitlines() if folder else ():
            log.error("  %s", line)
        return TaskFailedEvent()


class QuestionTrigger(HITLTrigger):
    """Waits for a person's answer about a topic.

    At the time-out, or when the problem has ended, the default answer is given. `digest`: the plan to approve; empty
    for a question about a topic. The first look comes after `poke_interval`: Airflow fails a task that resumes before
    the scheduler has noted the wait (apache/airflow#72716), and the retry would ask again.
    """

    def __init__(self, *, cluster: str, topic: str, consumer: str, digest: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.topic = topic
        self.consumer = consumer
        self.digest = digest

    @classmethod
    def of(cls, asks: Any, ti_id: Any, topic: str, consumer: str = "", digest: str = "") -> "QuestionTrigger":
        """Return the wait for the answer to an operator's question. It ends with the operator's `response_timeout`."""
        until = datetime.now(UTC) + asks.response_timeout
        form = {"options": asks.options, "defaults": asks.defaults, "params": asks.serialized_params}
        about = {"cluster": asks.cluster, "topic": topic, "consumer": consumer, "digest": digest}
        return cls(**about, ti_id=ti_id, timeout_datetime=until, **form)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("cluster", "topic", "consumer", "digest")
        arguments = {**super().serialize()[1], **{name: getattr(self, name) for name in names}}
        return "coordinator_plugin.triggers.QuestionTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            await asyncio.sleep(self.poke_interval)
            event = await self._handle_response()  # type: ignore[no-untyped-call]
            if event is None and (await self._withdrawn() or self._late()):
                event = await self._handle_timeout()
            if event is not None:
                yield event
                return

    def _late(self) -> bool:
        return self.timeout_datetime is not None and self.timeout_datetime < datetime.now(UTC)

    async def _withdrawn(self) -> bool:
        """Return whether to withdraw the question. The question stays if its topic cannot be read.

        Borrows the coordinator at each check, so that a question can be answered without ZooKeeper.
        """
        try:
            async with await borrowed(self.cluster) as coordinator:
                about = (plans_to_approve.still_waits, self.digest) if self.digest else (still_asked, self.consumer)
                asked = await in_thread(self.cluster, about[0], coordinator, self.topic, about[1])
        except CoordinatorError as error:
            log.warning("the question stands, because its topic cannot be read: %s", error.told)
            return False
        if not asked:
            ended = "this plan does not wait any more" if self.digest else "it is not stuck any more, or is removed"
            log.info("the question about topic %s is withdrawn: %s", self.topic, ended)
        return not asked
