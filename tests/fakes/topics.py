"""The topics of a consumer's agent, without queries."""

from collections.abc import Callable
from typing import TypeVar

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.settings import Identity, Timing
from tests.fakes.clock import FakeClock

V = TypeVar("V")


class FakeTopics:
    """Holders without queries; topic names with the prefix `un` match no pipeline."""

    def __init__(self, identity: Identity, clock: FakeClock, timing: Timing | None = None) -> None:
        self.ownerships: dict[str, TopicOwnership] = {}
        self.acquiring = True
        self.broken = ""
        self.missing = ""
        self.halted = False
        self._identity, self._clock, self._timing = identity, clock, timing

    def names(self) -> tuple[str, ...]:
        return tuple(self.ownerships)

    def appeared(self, topic: str, node: TopicNode) -> str:
        if topic.startswith("un"):
            return f"no pipeline matches {topic} of {node.group_id}"
        self.ownerships[topic] = TopicOwnership(
            topic, self._identity, self._clock, self._timing, acquiring=self.acquiring
        )
        return ""

    def edit(self, topic: str, change: Callable[[TopicOwnership], V]) -> V:
        return change(self.ownerships[topic])

    def failure(self) -> str:
        return self.broken

    def trouble(self) -> str:
        return self.missing

    def halt(self) -> None:
        self.halted = True
        for ownership in self.ownerships.values():
            ownership.query_ended(self.broken)
