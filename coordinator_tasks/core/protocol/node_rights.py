"""Rights of the consumers' ZooKeeper account on each node, if the coordinator has an account of its own.

The coordinator's account has all rights on all nodes. The letters are ZooKeeper's: `r`ead data and children, `w`rite
data, `c`reate children, `d`elete children.
"""

from coordinator_tasks.core.names import ROOT

_FOLDER = "r"
_RIGHTS = {
    ("members", 1): "rcd",
    ("ids", 1): "rc",
    ("leaving", 1): "rc",
    ("members", 2): "r",
    ("ids", 2): "rw",
    ("leaving", 2): "rw",
    ("directives", 2): "r",
    ("fleet", 2): "r",
    ("assignments", 2): "r",
    ("assignments", 3): "rw",
}
"""Rights by folder, and by depth below the cluster's node."""
CREATED_BY_CONSUMERS = frozenset({("members", 2), ("ids", 2), ("leaving", 2)})


def of_consumers(path: str) -> str:
    """Return the rights of a consumer's account on this node; empty without rights."""
    place = _place(path)
    if place is None:
        return ""
    return _RIGHTS.get(place, _FOLDER if place[1] <= 1 else "")


def is_created_by_consumers(path: str) -> bool:
    """Return whether consumers create this node. The coordinator creates all other nodes."""
    return _place(path) in CREATED_BY_CONSUMERS


def _place(path: str) -> tuple[str, int] | None:
    """Return the node's folder and the depth below the cluster's node; `None` if the node belongs to no cluster."""
    if not path.startswith(f"{ROOT}/"):
        return None
    _cluster, *inside = path.removeprefix(f"{ROOT}/").split("/")
    return (inside[0] if inside else "", len(inside))
