"""Logs a consumer's changes: new reports, and partitions taken up or given away."""

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.text.partition_text import named
from spark_apps.agent.reports import Problem

EVERY_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicAccount:
    """Facts about one topic or the consumer itself: problems, held partitions, and the epoch in force."""

    problems: tuple[Problem, ...] = ()
    held: frozenset[int] = frozenset()
    epoch: int = 0


class Journal:
    """Logs differences between looks; used by one thread, except `epoch_of`. `standing` returns topic → facts.

    An empty topic name stands for the consumer itself.
    """

    def __init__(self, standing: Callable[[], Mapping[str, TopicAccount]]) -> None:
        self._standing = standing
        self._known: Mapping[str, TopicAccount] = {}
        self._at = 0.0

    def epoch_of(self, topic: str) -> int:
        """Return the topic's epoch at the last look; 0 if unknown."""
        return self._known.get(topic, TopicAccount()).epoch

    def look(self, now: float) -> None:
        """Log changes, at most once every `EVERY_S` by this clock."""
        if now < self._at:
            return
        self._at = now + EVERY_S
        before, self._known = self._known, self._standing()
        for topic, one in self._known.items():
            self._say(topic, before.get(topic, TopicAccount()), one)

    def _say(self, topic: str, before: TopicAccount, now: TopicAccount) -> None:
        about = {"topic": topic} if topic else {}
        known = {problem.text for problem in before.problems}
        for problem in now.problems:
            if problem.text not in known:
                log.warning("%s", problem.text, extra=about)
        lasting = frozenset[Hashable]().union(*(problem.matters for problem in now.problems))
        for problem in before.problems:
            if lasting.isdisjoint(problem.matters):
                log.info("over: %s", problem.text, extra=about)
        if now.held - before.held:
            log.info("takes up %s", named(sorted(now.held - before.held)), extra=about)
        if before.held - now.held:
            log.info("has given away or lost %s", named(sorted(before.held - now.held)), extra=about)
