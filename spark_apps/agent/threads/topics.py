"""The agent's interface to the consumer that runs the topics and their queries."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.ownership.topic_ownership import TopicOwnership

V = TypeVar("V")


class Topics(Protocol):
    """The ownership of each topic; `edit` serializes the changes of a topic."""

    def names(self) -> Collection[str]:
        """Return the known topics."""

    def appeared(self, topic: str, node: TopicNode) -> str:
        """Start a topic that is new in ZooKeeper. Return a sentence if the start fails, else an empty text.

        Afterwards the caller hands over the node's assignments, if they are in force.
        """

    def edit(self, topic: str, change: Callable[[TopicOwnership], V]) -> V:
        """Read or change the ownership of `topic`."""

    def failure(self) -> str:
        """Return why the consumer can no longer work, such as the end of a query; else an empty text."""

    def trouble(self) -> str:
        """Return why nothing can be read at present, although no query has ended; else an empty text."""

    def halt(self) -> None:
        """Stop all queries, wait for their tasks, and report the end to the ownership of every topic."""
