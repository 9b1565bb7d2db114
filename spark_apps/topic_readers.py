"""A runner and a reading thread for each topic, for consumers with and without Spark."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.process.consumer_process import Process
from spark_apps.agent.settings import Pacing
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery.lineage import Dataset, Lineage

log = logging.getLogger(__name__)


class TopicReader(ABC):
    """Reads one topic. `problem`: why the reading has ended; empty while reading."""

    def __init__(self, runner: TopicRunner) -> None:
        self.runner = runner
        self.problem = ""

    @abstractmethod
    def end(self) -> bool:
        """Finish the batch under way, and end. Return False if this takes too long."""

    def halt(self) -> None:
        """End the reading. An unfinished batch still counts as running."""
        if self.end():
            why = self.problem
            self.runner.edit(lambda ownership: ownership.query_ended(why))
        else:
            log.error("reading topic %s did not end in time", self.runner.topic)

    def close(self) -> None:
        """End the runner as well."""
        self.runner.close()


R = TypeVar("R", bound=TopicReader)
V = TypeVar("V")


class TopicReaders(Generic[R]):
    """The common part of `agent.topics.Topics` for all consumers."""

    def __init__(self) -> None:
        self._topics: dict[str, R] = {}
        self._lineage: Lineage | None = None

    def names(self) -> Collection[str]:
        return tuple(self._topics)

    def tell_lineage(self, process: Process, runner: TopicRunner, outputs: Sequence[Dataset]) -> None:
        """Report to OpenLineage that a topic's reading begins, with these output datasets."""
        self._lineage = process.lineage
        if self._lineage is not None:
            group, brokers = runner.group, process.settings.site.kafka["bootstrap.servers"]
            self._lineage.began(runner.topic, group, brokers, outputs)

    def edit(self, topic: str, change: Callable[[TopicOwnership], V]) -> V:
        return self._topics[topic].runner.edit(change)

    def halt(self) -> None:
        for topic, one in self._topics.items():
            one.halt()
            if self._lineage is not None:
                self._lineage.ended(topic, one.problem)

    def close(self) -> None:
        for one in self._topics.values():
            one.close()


def make_runner(
    process: Process, topic: str, node: TopicNode, *, pacing: Pacing | None = None, acquiring: bool = True
) -> TopicRunner:
    """Return the runner of a topic in this process."""
    return TopicRunner(
        topic,
        node,
        process.identity,
        process.clock,
        process.connect,
        process.wake,
        brokers=process.settings.site.kafka["bootstrap.servers"],
        timing=process.settings.timing,
        pacing=pacing,
        acquiring=acquiring,
    )
