"""Frozen topics. A consumer keeps its partitions of a frozen topic even while draining."""

from collections.abc import Collection
from contextlib import suppress

from coordinator_tasks.core.errors import NotManaged
from coordinator_tasks.core.model import TopicConfig
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.core.text.partition_text import agreed, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import store
from coordinator_tasks.service.nodes.topics import configuration


def why_frozen(config: TopicConfig, owners: Collection[str]) -> str:
    """Return why these owners keep their partitions of the topic, and the remedy; empty if the topic is not frozen."""
    if not config.frozen or config.removed:
        return ""
    keep = agreed(len(owners), "keeps", "keep")
    return f"topic {config.topic!r} is frozen, so {shown(sorted(owners))} {keep} its partitions; unfreeze it"


def why_kept(c: Coordinator, consumers: Collection[str], topics: Collection[str] = ()) -> str:
    """Return why one of these consumers keeps partitions of a frozen topic; empty if none does.

    `topics`: the topics to check; empty means all. Raises `Malformed`.
    """
    for topic, node in store.load_nodes(c.zk, c.paths, topics or children(c.zk, c.paths.configs)).items():
        owners = set(node.assignments.values()).intersection(consumers)
        with suppress(NotManaged):  # the topic is being removed
            if owners and (why := why_frozen(configuration(c, topic), owners)):
                return why
    return ""
