"""What the agent needs of whoever runs the topics' holders and queries."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from coordinator_tasks.core.model import TopicNode
from spark_apps.agent.ownership.holder import Holder

V = TypeVar("V")


class Topics(Protocol):
    """The holders by topic; `edit` runs one change at a time for each."""

    def names(self) -> Collection[str]:
        """The topics that have a holder."""

    def appeared(self, topic: str, node: TopicNode) -> str:
        """A topic without a holder stands in ZooKeeper: start one. Returns why not, in a sentence, or an empty text.

        What the node assigns is handed to the holder by the caller, if it is to be acted on.
        """

    def edit(self, topic: str, change: Callable[[Holder], V]) -> V:
        """Look at or change the holder of `topic`."""

    def failure(self) -> str:
        """Why the consumer can no longer do its work (a query has ended), or an empty text."""

    def trouble(self) -> str:
        """Why nothing can be read at present, although nothing has ended; or an empty text."""

    def halt(self) -> None:
        """Stop all queries and wait for their tasks; every holder is told that its query has ended."""
