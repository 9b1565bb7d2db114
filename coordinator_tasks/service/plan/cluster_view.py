"""A cluster at one moment, for previews of changes. Writes nothing, and no notes either."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.what_if import ClusterMoment
from coordinator_tasks.core.model import Committed
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store


def site_of(c: Coordinator) -> tuple[ClusterMoment, dict[str, str]]:
    """Return the cluster, and topic → why it is left out. The cluster has all managed topics, with effective
    strategies, and all consumers.

    Raises the `Unavailable` kinds.
    """
    found = store.load_topics(c.zk, c.paths)
    left_out = {name: str(error) for name, error in found.unread.items()}
    world = observe.snapshot(c, found.nodes, note=False).world
    views = observe.describe(c, found.views)
    described = [replace(one, config=c.policy.strategies.effective(one.config)) for one in views]
    # Only a topic without a plan needs offsets: it may have to adopt the owners of committed offsets.
    offsets = observe.committed(c, [view for view in described if view.node is None or view.state is None])
    committed: dict[str, Mapping[int, Committed] | None] = {}
    for name, one in offsets.items():
        if isinstance(one, Refused):
            left_out[name] = str(one)
        else:
            committed[name] = one
    topics = {view.topic: view for view in described if view.topic not in left_out}
    return ClusterMoment(world, topics, committed), left_out
