"""When a wait ends: pure, the same for the short look of a worker and for the long wait in the triggerer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_tasks.service.transitions import Waiting, WaitReport

PATIENCE_S = 2.0
"""How long topics that are confirmed wait for those that are not, before they go on without them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a wait ended: `confirmed`, `replan` or `blocked`, with a sentence and the blockers for each topic."""

    waiting: Waiting
    topics: Mapping[str, str]
    blockers: Mapping[str, tuple[str, ...]]
    waited_s: float

    def plain(self) -> dict[str, Any]:
        """For XCom."""
        return {
            "waiting": str(self.waiting),
            "topics": dict(self.topics),
            "blockers": {topic: list(names) for topic, names in self.blockers.items()},
            "waited_s": round(self.waited_s, 3),
        }


@dataclass(slots=True)
class Patience:
    """Judges one look after the other; times are `time.monotonic()`.

    A topic that is stuck must not hold up the others: when some can go on and the rest has not changed for `patience_s`,
    the wait ends as `confirmed` and those go on; what is left over is the next run's.
    """

    began_s: float
    limit_s: float
    patience_s: float = PATIENCE_S
    _pending: frozenset[str] = frozenset()
    _changed_s: float = 0.0

    def judge(self, report: WaitReport, others_ready: bool, now_s: float) -> Outcome | None:
        """The end of the wait, or `None` to go on. `others_ready`: topics that do not wait for this can go on."""
        pending = frozenset(report.pending)
        if pending != self._pending or not self._changed_s:
            self._pending, self._changed_s = pending, now_s
        if report.waiting in (Waiting.CONFIRMED, Waiting.REPLAN):
            return self._end(report.waiting, report, now_s)
        if (report.confirmed or others_ready) and now_s - self._changed_s >= self.patience_s:
            return self._end(Waiting.CONFIRMED, report, now_s)
        if now_s - self.began_s >= self.limit_s:
            return self._end(Waiting.BLOCKED, report, now_s)
        return None

    def gave_up(self, sentence: str, now_s: float) -> Outcome:
        """The end of a wait that could not look."""
        return Outcome(Waiting.BLOCKED, {"": sentence}, {}, now_s - self.began_s)

    def _end(self, waiting: Waiting, report: WaitReport, now_s: float) -> Outcome:
        return Outcome(waiting, report.topics, report.blockers, now_s - self.began_s)
