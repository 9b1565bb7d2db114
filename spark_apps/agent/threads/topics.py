"""What the agent needs of the consumer that runs the topics and their queries."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.ownership.topic_ownership import TopicOwnership

V = TypeVar("V")


class Topics(Protocol):
    """The ownership of each topic; `edit` runs one change at a time for each."""

    def names(self) -> Collection[str]:
        """The topics that are known here."""

    def appeared(self, topic: str, node: TopicNode) -> str:
        """ZooKeeper has a topic that is not known here: start it. Returns why not, in a sentence, or an empty text.

        What the node assigns is handed over by the caller, if it is to be acted on.
        """

    def edit(self, topic: str, change: Callable[[TopicOwnership], V]) -> V:
        """Read or change the ownership of `topic`."""

    def failure(self) -> str:
        """Why the consumer can no longer do its work (a query has ended), or an empty text."""

    def trouble(self) -> str:
        """Why nothing can be read at present, although nothing has ended; or an empty text."""

    def halt(self) -> None:
        """Stop all queries and wait for their tasks; every topic is told that its query has ended."""
