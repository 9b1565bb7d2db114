"""The growth of fleets in ZooKeeper: one node for each fleet with limits."""

from collections.abc import Iterator
from contextlib import suppress

from coordinator_tasks.core.codecs.growth_codec import Growth, decode_growth
from coordinator_tasks.core.errors import UNREADABLE, NotManaged
from coordinator_tasks.core.names import check_app, is_app
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.service.coordinator import Coordinator


def growing(c: Coordinator) -> list[str]:
    """Return the fleets with limits of growth, sorted."""
    return sorted(filter(is_app, children(c.zk, c.paths.growths)))


def find(c: Coordinator, app: str) -> Growth | None:
    """Return the growth of a fleet; `None` without limits. Raises `Malformed`."""
    path = c.paths.growth(check_app(app))
    node = c.zk.find(path)
    return None if node is None else decode_growth(path, node.data, app, node.stat.version)


def readable(c: Coordinator) -> Iterator[Growth]:
    """Yield the growth of each fleet. Unreadable growths are left out, because `autoscale.look` reports them."""
    for app in growing(c):
        with suppress(*UNREADABLE):
            if (found := find(c, app)) is not None:
                yield found


def read(c: Coordinator, app: str) -> Growth:
    """Return the growth of a fleet; raises `NotManaged` without limits."""
    found = find(c, app)
    if found is None:
        raise NotManaged(f"the fleet {app!r} has no limits of growth; give it some with `set-growth {app} --max N`")
    return found
