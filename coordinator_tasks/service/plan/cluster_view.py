"""A cluster at one moment, for previews of changes. Writes nothing, not even notes."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_tasks.core.errors import LookAgain, Malformed, Refused
from coordinator_tasks.core.machine.what_if import ClusterMoment
from coordinator_tasks.core.model import Committed
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store
from coordinator_tasks.service.plan import transitions


def site_of(c: Coordinator) -> tuple[ClusterMoment, dict[str, str]]:
    """All managed topics and everybody, with each topic's effective strategy; and topic → why it is left out.

    Raises the `Unavailable` kinds.
    """
    views, left_out = [], dict[str, str]()
    c.zk.sync()
    every = transitions.topics(c)
    for name in every:
        try:
            views.append(store.load(c.zk, c.paths, name).view)
        except (Malformed, Refused, LookAgain) as error:
            left_out[name] = str(error)
    found = observe.snapshot(c, every, note=False)
    described = [replace(one, config=c.policy.strategies.effective(one.config)) for one in observe.describe(c, views)]
    # Offsets matter only where a topic has no plan yet: committed offsets may have to be adopted.
    offsets = observe.committed(c, [view for view in described if view.node is None or view.state is None])
    committed: dict[str, Mapping[int, Committed] | None] = {}
    for name, one in offsets.items():
        if isinstance(one, Refused):
            left_out[name] = str(one)
        else:
            committed[name] = one
    topics = {view.topic: view for view in described if view.topic not in left_out}
    return ClusterMoment(found.world, topics, committed), left_out
