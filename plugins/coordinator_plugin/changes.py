"""What ZooKeeper's watcher compares: a number for each node whose changes may need a plan or a launch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TypeAlias

from coordinator_tasks.core.errors import NoAccess, NodeMissing
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Watcher
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.service.coordinator import Coordinator

Seen: TypeAlias = dict[str, dict[str, int]]
"""Kind of node → name → a number that changes with the node."""


class Scope(StrEnum):
    """Which nodes to watch."""

    TOPICS = "topics"  # members, directives, leaves, topics' configuration and partitions, lost states: for `rebalance`
    FLEET = "fleet"  # the fleets, and lost members: for `consumers`


def observe(c: Coordinator, scope: Scope, watcher: Watcher) -> Seen:
    """Return the current numbers. `watcher` is called once at the next change. Raises the `Unavailable` errors.

    A node that this account may not read is left out; the tasks that need the node report the error.
    """
    c.discovery.watch(watcher)
    members = {name: int(member.registered_at * 1000) for name, member in c.discovery.members().items()}
    if scope is Scope.FLEET:
        return {"member": members, "fleet": _modified(c, c.paths.fleets, watcher)}
    topics = _modified(c, c.paths.configs, watcher)
    return {
        "member": members,
        "directive": _modified(c, c.paths.directives, watcher),
        "leave of": _modified(c, c.paths.leaves, watcher),
        "topic": topics,
        "partitions of": _children_versions(c, sorted(filter(is_topic, topics)), watcher),
        "state of": dict.fromkeys(_children(c, c.paths.states, watcher), 0),
    }


def differences(before: Seen, now: Seen) -> list[str]:
    """Return a sentence for each difference that needs a run. An empty `before` (the first read) needs a run."""
    if not before:
        return ["first look"]
    # Our own plans create states, and a fleet needs no run for a new member. So only a loss counts for these kinds.
    lost_only = {"state of", "member"} if "fleet" in now else {"state of"}
    return [
        line
        for kind, things in now.items()
        for line in _compared(kind, before.get(kind, {}), things, lost_only=kind in lost_only)
    ]


def _compared(kind: str, before: Mapping[str, int], now: Mapping[str, int], *, lost_only: bool) -> Iterator[str]:
    joined, left = ("joined", "left") if kind == "member" else ("is new", "is gone")
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield f"{kind} {name} {left}"
        elif lost_only:
            continue
        elif name not in before:
            yield f"{kind} {name} {joined}"
        elif before[name] != now[name]:
            yield f"{kind} {name} changed"


def _children(c: Coordinator, folder: str, watcher: Watcher) -> Sequence[str]:
    try:
        return c.zk.children(folder, watcher)
    except NoAccess:
        return ()
    except NodeMissing:
        c.zk.find(folder, watcher)
        return ()


def _modified(c: Coordinator, folder: str, watcher: Watcher) -> dict[str, int]:
    """Return the folder's children, each with the last transaction that changed it. Set a watch on each child."""
    found: dict[str, int] = {}
    for name in _children(c, folder, watcher):
        with suppress(NoAccess):
            if (node := c.zk.find(f"{folder}/{name}", watcher)) is not None:
                found[name] = node.stat.modified_zxid
    return found


def _children_versions(c: Coordinator, topics: Sequence[str], watcher: Watcher) -> dict[str, int]:
    """Return topic → version of the topic's list of partitions."""
    for topic in topics:
        _children(c, c.paths.topic(topic), watcher)
    nodes = find_many(c.zk, {topic: c.paths.topic(topic) for topic in topics}, {})
    return {topic: node.stat.children_version for topic, node in nodes.items()}
