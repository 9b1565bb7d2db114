"""The current choices for a form's fields. A person can type other values too: a list is no check."""

from collections.abc import Mapping
from typing import TypeAlias

from coordinator_tasks.core.errors import DiscoveryUnavailable, Malformed
from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.names import is_consumer, is_topic
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.settings import of_the_host

TOPICS, CONSUMERS, FLEETS, VERSIONS, STRATEGIES, REBALANCES, DATABASES = range(7)
OFFERED: Mapping[str, int] = {
    "topic": TOPICS,
    "topics": TOPICS,
    "consumer": CONSUMERS,
    "consumers": CONSUMERS,
    "leave": CONSUMERS,
    "app": FLEETS,
    "version": VERSIONS,
    "strategy": STRATEGIES,
    "rebalance": REBALANCES,
    "database": DATABASES,
}
"""Parameter → list of its choices. The page itself fetches rebalances, which depend on the topic."""
Choices: TypeAlias = Mapping[int, Mapping[str, str]]
"""List → value → a remark, which may be empty."""


def choices(c: Coordinator) -> Choices:
    """Return topics, consumers, fleets with their versions, strategies, databases. Writes nothing. Raises the `Unavailable` kinds."""
    found = fleets.fleets(c)
    try:
        registered = sorted(c.discovery.members())
    except (DiscoveryUnavailable, Malformed):
        registered = []
    known = {one for fleet in found for one in fleet.consumers} | set(filter(is_consumer, children(c.zk, c.paths.ids)))
    away = sorted(known - set(registered))
    versions = grouped((name, one.app) for one in found for name in {*one.versions, one.name} - {""})
    return {
        TOPICS: dict.fromkeys(filter(is_topic, transitions.topics(c)), ""),
        CONSUMERS: dict.fromkeys(registered, "") | dict.fromkeys(away, "not registered"),
        FLEETS: dict.fromkeys((one.app for one in found), ""),
        VERSIONS: {name: f"of {shown(apps)}" for name, apps in sorted(versions.items())},
        STRATEGIES: dict.fromkeys(sorted(c.policy.strategies.known), ""),
        DATABASES: dict.fromkeys(sorted(of_the_host().get("databases", {})), ""),
    }
