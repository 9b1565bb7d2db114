"""The wait for confirmations, used for a short wait on a worker and for a long wait in the triggerer."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from coordinator_plugin.report import waiting_lines
from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Watcher
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import WaitReport

MAX_WATCHED_TOPICS = 200
PATIENCE_S = 2.0
"""Seconds that confirmed topics wait for the other topics. Then the run continues without the unconfirmed topics."""


class WaitKind(StrEnum):
    """Which confirmations are awaited."""

    CLOSED = "closed"
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class Confirmations:
    """The current confirmations. `others_ready`: a write is due in topics that need no confirmation of this kind."""

    report: WaitReport
    others_ready: bool = False


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """The end of a wait: `written`, `unchanged`, `overtaken` or `stuck`.

    `topics`: topic → sentence. `blockers`: topic → consumers that block the topic.
    """

    outcome: TopicOutcome
    topics: Mapping[str, str]
    blockers: Mapping[str, tuple[str, ...]]
    waited_s: float

    def plain(self) -> dict[str, Any]:
        return {
            "outcome": str(self.outcome),
            "topics": dict(self.topics),
            "blockers": {topic: list(names) for topic, names in self.blockers.items()},
            "waited_s": round(self.waited_s, 3),
        }


@dataclass(slots=True)
class Patience:
    """Decides when a wait ends. Pure; times are `time.monotonic()`.

    A stuck topic does not delay other topics: if a write is possible and the pending topics have not changed for
    `patience_s`, the wait ends as `written`. The next run serves the pending topics.
    """

    began_s: float
    limit_s: float
    patience_s: float = PATIENCE_S
    _pending: frozenset[str] = frozenset()
    _changed_s: float = 0.0

    def judge(self, report: WaitReport, others_ready: bool, now_s: float) -> WaitOutcome | None:
        """Return the end of the wait; `None` to continue the wait. `others_ready`: see `Confirmations`."""
        pending = frozenset(report.pending)
        if pending != self._pending or not self._changed_s:
            self._pending, self._changed_s = pending, now_s
        outcome = report.outcome
        if outcome in (TopicOutcome.WAITING, TopicOutcome.STUCK):
            if (report.confirmed or others_ready) and now_s - self._changed_s >= self.patience_s:
                outcome = TopicOutcome.WRITTEN
            elif now_s - self.began_s >= self.limit_s:
                outcome = TopicOutcome.STUCK
            else:
                return None
        return WaitOutcome(outcome, report.topics, report.blockers, now_s - self.began_s)

    def judge_unread(self, problem: str, now_s: float) -> WaitOutcome | None:
        """Return the end of the wait after a failed read; `None` to continue the wait."""
        waited_s = now_s - self.began_s
        return WaitOutcome(TopicOutcome.STUCK, {"": problem}, {}, waited_s) if waited_s >= self.limit_s else None


@dataclass(slots=True)
class ConfirmationWait:
    """A wait for the confirmations of these topics; of all topics if empty.

    `say` logs the missing confirmations when they change.
    """

    kind: WaitKind
    topics: Sequence[str]
    patience: Patience
    say: Callable[..., object]
    _shown: Mapping[str, str] = field(default_factory=dict)

    def poll(self, c: Coordinator, watcher: Watcher | None = None) -> WaitOutcome | None:
        """Look once. Return the end of the wait; `None` to continue the wait."""
        found = confirmations(c, self.kind, self.topics, watcher)
        lines = waiting_lines(found.report.topics, found.report.blockers)
        if lines != self._shown:
            self._shown = lines
            for topic, line in lines.items():
                with about(**found.report.fields.get(topic, {"topic": topic})):
                    self.say("%s", line)
        return self.patience.judge(found.report, found.others_ready, time.monotonic())


def confirmations(
    c: Coordinator, kind: WaitKind, topics: Sequence[str], watcher: Watcher | None = None
) -> Confirmations:
    """Return the confirmations of these topics; of all topics if empty.

    `watcher` is called once when members or states change.
    """
    named = tuple(topics) or transitions.topics(c)
    if watcher is not None:
        c.discovery.watch(watcher)
        for topic in [topic for topic in named if is_topic(topic)][:MAX_WATCHED_TOPICS]:
            with suppress(NoAccess):  # the read of the topic reports the error
                c.zk.find(c.paths.state(topic), watcher)
    report = (transitions.await_closed if kind is WaitKind.CLOSED else transitions.await_started)(c, named)
    if not report.pending:
        return Confirmations(report)
    rest = [topic for topic in named if topic not in report.pending and topic not in report.confirmed]
    return Confirmations(report, bool(rest and transitions.ready(c, rest)))
